package webhook

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// FuzzDelivery sends any row and reads what is on the wire: one request with the headers of the protocol and no other,
// whose signature is that of the body which was sent. What cannot be sent so is refused before anything leaves.
func FuzzDelivery(f *testing.F) {
	const id = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	f.Add("7", "billing", []byte(`{"invoice": 7}`), "invoice-7", id, false)
	f.Add("../x?y#z", "a\r\nX-Evil: 1", []byte(`[]`), "\xff\x00", "00-\r\nX-Evil: 1", false)
	f.Add("", "", []byte(``), "", "", true)
	f.Add("é/%2f", " a\t", []byte("{}\r\n\r\nPOST / HTTP/1.1\r\n\r\n"), "k", id+"\r\n", true)
	f.Add(" ", "\x7f", []byte(`{"a":`), `"`, "x", false)
	f.Add("@h", "\xff", []byte("\n1 "), "\u2028", "", false)
	c := New(Options{Version: "1.2.3", Workers: 1})
	f.Cleanup(c.Close)
	f.Fuzz(func(t *testing.T, segment, header string, payload []byte, key, trace string, plain bool) {
		if len(segment)+len(header)+len(payload)+len(key)+len(trace) > 16<<10 {
			return
		}
		w := to("http://127.0.0.1:8080/t/" + url.PathEscape(segment) + "?q=" + url.QueryEscape(segment))
		w.Headers = map[string]task.Template{"X-Value": exectest.Text(header)}
		w.Secrets = []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}
		if plain {
			w.Body = task.BodyPayload
		}
		var wire bytes.Buffer
		c.tries = roundTrip(func(r *http.Request) (*http.Response, error) {
			require.NoError(t, r.Write(&wire))
			return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody}, nil
		})
		payload = append([]byte{}, payload...) // nil would be the test's own
		o := run(t, c, exectest.Attempt{Task: task.Task{Payload: payload, Key: key, Traceparent: trace}}, w)
		broken := strings.ContainsFunc(header, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
		if broken || !plain && !json.Valid(payload) {
			require.Equal(t, task.Rejected, o.Verdict)
			require.True(t, o.NeverStarted)
			require.Zero(t, wire.Len())
			return
		}
		require.Equal(t, task.Outcome{Verdict: task.Succeeded}, o)
		got, body := parsed(t, &wire)
		require.Equal(t, "127.0.0.1:8080", got.Host)
		require.Equal(t, "/t/"+segment, got.URL.Path)
		require.Equal(t, url.Values{"q": {segment}}, got.URL.Query())
		require.Equal(t, strings.Trim(header, " \t"), got.Header.Get("X-Value"))
		require.Regexp(t, `^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`, got.Header.Get("Traceparent"))
		signed(t, w, got, body)
		if plain {
			require.Equal(t, string(payload), string(body))
			return
		}
		var doc struct{ Data json.RawMessage }
		require.NoError(t, json.Unmarshal(body, &doc))
		require.Equal(t, string(bytes.TrimSpace(payload)), string(doc.Data))
	})
}

// parsed reads the one request that was written, which has the headers of the protocol and the declared one.
func parsed(t *testing.T, wire *bytes.Buffer) (*http.Request, []byte) {
	t.Helper()
	r := bufio.NewReader(wire)
	got, err := http.ReadRequest(r)
	require.NoError(t, err)
	body, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.EqualValues(t, len(body), got.ContentLength)
	_, err = r.ReadByte()
	require.ErrorIs(t, err, io.EOF, "one request, and nothing behind it")
	var names []string
	for name, values := range got.Header {
		require.Len(t, values, 1, name)
		names = append(names, name)
	}
	require.ElementsMatch(t, []string{
		"Content-Length", "Content-Type", "User-Agent", "Traceparent", "X-Value", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature",
		"Leasehold-Type", "Leasehold-Task", "Leasehold-Phase", "Leasehold-Attempt", "Leasehold-Fence", "Leasehold-Deadline",
	}, names)
	return got, body
}

// signed requires that the body which came was signed with each secret.
func signed(t *testing.T, w *task.Webhook, got *http.Request, body []byte) {
	t.Helper()
	for _, secret := range w.Secrets {
		wh, err := standardwebhooks.NewWebhook(secret)
		require.NoError(t, err)
		require.NoError(t, wh.Verify(body, got.Header))
		require.Error(t, wh.Verify(append(slices.Clip(body), ' '), got.Header))
	}
}

// piecewise is a body that comes in pieces as long as its cuts say, over and over.
type piecewise struct {
	text  []byte
	cuts  []byte
	end   error
	early bool // the end comes together with the last piece
	n     int
}

func (b *piecewise) Read(p []byte) (int, error) {
	n := min(len(p), len(b.text))
	if len(b.cuts) > 0 {
		n = min(n, int(b.cuts[b.n%len(b.cuts)])+1)
		b.n++
	}
	copy(p, b.text[:n])
	b.text = b.text[n:]
	if len(b.text) == 0 && (n == 0 || b.early) {
		return n, b.end
	}
	return n, nil
}

func (b *piecewise) Close() error { return nil }

// readStream reads a body as a streamed answer, and returns its outcome and its pings.
func readStream(body *piecewise) (o task.Outcome, pings []store.Ping) {
	l := exectest.Attempt{}.Lease()
	defer l.Close()
	l.OnPing(func(p store.Ping, _ store.PingReply) { pings = append(pings, p) })
	d := &attempt{delivery{hold: l, opaque: true}, l} // the request has left
	return d.streamed(&http.Response{StatusCode: http.StatusOK, Body: body}), pings
}

// FuzzStreamed cuts a streamed answer into pieces: it says the same as in one piece, which is what its lines say.
func FuzzStreamed(f *testing.F) {
	for _, s := range []string{
		"{}\n{\"progress\": 0.4, \"message\": \"é\"}\n\n{\"result\": {\"a\": 1}}\n", "{\"checkpoint\": {\"page\": 40}}\r\n{\"error\": \"why\", \"retryable\": false}", "",
		"\n\n", "word\n{}\n{\"result\"", "{\"result\": null}\n{\"error\": \"late\"}\n", "{\"error\": null}\n{\"error\": {\"a\": \"\\u0000\"}}\n", "{\"result\": \"\\ud800\"}\n{}",
		"{\"retryable\": 1, \"error\": \"\"}\n{\"result\":" + strings.Repeat(" ", 5000) + "7}\n", strings.Repeat("{}\n", 40) + "{\"result\": 1e9999}",
		"{\"message\": \"" + strings.Repeat("m", 5000) + "\"}\n{\"next_within_s\": 600}\n",
	} {
		f.Add([]byte(s), []byte{0}, false, true)
		f.Add([]byte(s), []byte{6, 0, 255}, true, false)
	}
	f.Fuzz(func(t *testing.T, text, cuts []byte, broken, early bool) {
		if len(text) > 3*pieceSize || len(cuts) > 1<<10 {
			return
		}
		end := io.EOF
		if broken {
			end = io.ErrUnexpectedEOF
		}
		whole, wholePings := readStream(&piecewise{text: text, end: end})
		o, pings := readStream(&piecewise{text: text, cuts: cuts, end: end, early: early})
		require.Equal(t, whole, o)
		require.Equal(t, wholePings, pings)

		last, want, refused := byLine(text)
		require.Equal(t, want, pings)
		require.LessOrEqual(t, len(o.Error), task.MaxError+4*answer.MaxLine)
		require.True(t, utf8.ValidString(o.Error))
		switch {
		case last == nil:
			require.Equal(t, task.Failed, o.Verdict)
			require.True(t, o.EndUnknown, "whether it goes on is unknown")
			require.Equal(t, broken, strings.HasPrefix(o.Error, "the stream broke off"))
			require.Equal(t, refused > 0, strings.Contains(o.Error, "malformed and did not count"))
		case !last.Failed:
			require.Equal(t, task.Succeeded, o.Verdict)
			require.True(t, o.Result == nil || answer.Storable(o.Result))
			require.LessOrEqual(t, len(o.Result), task.MaxResult)
		case last.Final:
			require.Equal(t, task.Rejected, o.Verdict)
			require.NotEmpty(t, o.Error)
		default:
			require.Equal(t, task.Failed, o.Verdict)
			require.False(t, o.EndUnknown)
			require.NotEmpty(t, o.Error)
		}
	})
}

// byLine is what the lines of a stream say, up to the one that ends it (nil: none does), and how many are no pings.
func byLine(text []byte) (last *ping.End, pings []store.Ping, refused int) {
	for line := range bytes.Lines(text) {
		p, end, ok, err := ping.Stream(bytes.TrimSuffix(line, []byte("\n")))
		switch {
		case err != nil:
			refused++
		case end != nil:
			return end, pings, refused
		case ok:
			pings = append(pings, p)
		}
	}
	return nil, pings, refused
}

// FuzzRetryAfter reckons once more, in whole numbers, what a target may ask for.
func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{
		"30", "Fri, 20 Nov 2026 08:00:07 GMT", "9e9", "-3", "99999999999999999999", "+5", " 86400\t", "0x10", "Fri Nov 20 08:00:07 2026", "Friday, 20-Nov-26 08:00:07 GMT",
		"Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "٣", "1_000", "30, 40", "1.5",
	} {
		f.Add(s, "Fri, 20 Nov 2026 08:00:00 GMT")
		f.Add("Fri, 20 Nov 2026 08:00:07 GMT", s)
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		got := retryAfter(http.Header{"Retry-After": {value}, "Date": {date}})
		require.GreaterOrEqual(t, got, time.Duration(0))
		require.LessOrEqual(t, got, answer.MaxRetryAfter)
		digits := strings.TrimSpace(value)
		if n, ok := new(big.Int).SetString(digits, 10); ok && strings.Trim(digits, "0123456789") == "" {
			want := answer.MaxRetryAfter
			if n.Cmp(big.NewInt(24*60*60)) < 0 {
				want = time.Duration(n.Int64()) * time.Second
			}
			require.Equal(t, want, got)
			return
		}
		until, err := http.ParseTime(digits)
		if err != nil {
			require.Zero(t, got)
			return
		}
		now, err := http.ParseTime(date)
		if err != nil { // then it is our clock that counts
			return
		}
		require.Equal(t, min(max(until.Sub(now), 0), 24*time.Hour), got)
	})
}

// FuzzProblem answers with anything, as a document of any type. Only true and false of a problem document decide.
func FuzzProblem(f *testing.F) {
	const problem = "application/problem+json"
	f.Add([]byte(`{"title":"a","detail":"b","retryable":false,"stale":true}`), 500, problem)
	f.Add([]byte(`{"retryable":null,"stale":"true","title":{}}`), 422, "Application/Problem+JSON; charset=utf-8")
	f.Add([]byte(`[`), 200, problem)
	f.Add([]byte(`{"retryable":false,"retryable":0,"Stale":true}`), 503, problem+";")
	f.Add([]byte(`{"retryable": 0, "stale": 1, "detail": "\u0000\n\ud800"}`), 409, problem)
	f.Add([]byte(`{"retryable":false} {}`), 200, "application/json")
	f.Add([]byte(`{"stale":true,"x":1e999999}`), 202, problem)
	f.Add([]byte("{\"ret\\u0072yable\":false,\"title\":\"\xff\"}"), 101, problem)
	f.Fuzz(func(t *testing.T, body []byte, status int, contentType string) {
		if len(body) > task.MaxResult {
			return
		}
		a := &received{status: status, media: media(http.Header{"Content-Type": {contentType}}), body: body, size: int64(len(body))}
		require.Equal(t, strings.ToLower(a.media), a.media)
		o := a.outcome(&task.Webhook{})
		stale, final := decided(a)
		var want task.Verdict
		switch {
		case status == http.StatusSwitchingProtocols:
			want = task.Failed
		case stale:
			want = task.Superseded
		case final, status == 410, status == 422:
			want = task.Rejected
		case 200 <= status && status <= 299:
			want = task.Succeeded
		case status == 425, status == 429, status == 503:
			want = task.Deferred
		default:
			want = task.Failed
		}
		require.Equal(t, want, o.Verdict)
		require.Equal(t, o.Verdict == task.Succeeded, o.Error == "")
		require.True(t, utf8.ValidString(o.Error))
		require.False(t, strings.ContainsFunc(o.Error, unicode.IsControl), "%q", o.Error)
		require.LessOrEqual(t, len(o.Error), answer.MaxLine+64)
		require.LessOrEqual(t, len(o.Result), task.MaxResult)
		require.Equal(t, o.Result != nil, o.Verdict == task.Succeeded && len(bytes.TrimSpace(body)) > 0 && o.Note == "")
	})
}

// decided is what a problem document decides, read another way.
func decided(a *received) (stale, final bool) {
	if a.media != "application/problem+json" {
		return false, false
	}
	dec := json.NewDecoder(bytes.NewReader(a.body))
	dec.UseNumber()
	var doc map[string]any
	if dec.Decode(&doc) != nil {
		return false, false
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return false, false
	}
	retryable, said := doc["retryable"].(bool)
	stale, _ = doc["stale"].(bool)
	return stale, said && !retryable
}
