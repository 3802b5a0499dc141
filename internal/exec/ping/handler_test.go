package ping

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// fakeBackend takes pings, and returns the reply, answer and error that the test has set.
type fakeBackend struct {
	reply  store.PingReply
	answer store.Answer
	err    error
	took   string // the last call
}

func (d *fakeBackend) Ping(ctx context.Context, id task.ID, f task.Fence, p store.Ping) (store.PingReply, error) {
	d.note(ctx, "ping %d.%d %s %q %s %s", id, f, p.Progress, p.Message, p.Checkpoint, p.NextWithin)
	return d.reply, d.err
}

func (d *fakeBackend) Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) (store.Answer, error) {
	d.note(ctx, "complete %d.%d %s", id, f, result)
	return d.answer, d.err
}

func (d *fakeBackend) Fail(ctx context.Context, id task.ID, f task.Fence, text string, retryable bool) (store.Answer, error) {
	d.note(ctx, "fail %d.%d %q %t", id, f, text, retryable)
	return d.answer, d.err
}

func (d *fakeBackend) note(ctx context.Context, format string, args ...any) {
	d.took = fmt.Sprintf(format, args...)
	if _, bounded := ctx.Deadline(); !bounded {
		d.took += ", for ever"
	}
}

// reply is what a handler answered.
type reply struct {
	status int
	header http.Header
	body   string
}

func ask(t *testing.T, s *Signer, d *fakeBackend, method, path, body string) reply {
	t.Helper()
	h := NewHandler(func() *Signer { return s }, d, slog.New(slog.DiscardHandler))
	d.took = ""
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	if w.Code != http.StatusOK {
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	} else {
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	}
	require.True(t, json.Valid(w.Body.Bytes()), w.Body.String())
	return reply{w.Code, w.Header(), w.Body.String()}
}

func TestPingRequests(t *testing.T) {
	s := signer(t, "s")
	url := s.URL("http://127.0.0.1:7070", 4211, 9)
	held := store.PingReply{Answer: store.Applied, Counted: true, Remaining: 9800 * time.Millisecond}
	for name, c := range map[string]struct {
		method, below, body string
		fakeBackend         fakeBackend
		status              int
		took, says          string
	}{
		"GET":            {"GET", "", "", fakeBackend{reply: held}, 200, `ping 4211.9  ""  0s`, `{"counted": true, "cancel": false, "remaining_s": 9.800}`},
		"GET, a body":    {"GET", "", "{", fakeBackend{reply: held}, 200, `ping 4211.9  ""  0s`, `"counted": true`},
		"POST, bare":     {"POST", "", "", fakeBackend{reply: held}, 200, `ping 4211.9  ""  0s`, `"counted": true`},
		"POST":           {"POST", "", `{"progress": 0.4, "message": "m", "checkpoint": {"page": 40}, "next_within_s": 600}`, fakeBackend{reply: held}, 200, `ping 4211.9 0.4 "m" {"page":40} 10m0s`, `"counted": true`},
		"POST, large":    {"POST", "", `{"checkpoint": ` + checkpointOf(store.MaxCheckpoint) + `}`, fakeBackend{reply: held}, 200, `ping 4211.9  "" "ccc`, `"counted": true`},
		"not counted":    {"POST", "", "", fakeBackend{reply: store.PingReply{Answer: store.Applied, Reason: "progress did not change"}}, 200, "ping", `{"counted": false, "cancel": false, "remaining_s": 0.000, "reason": "progress did not change"}`},
		"cancel":         {"GET", "", "", fakeBackend{reply: store.PingReply{Answer: store.Applied, Cancel: true, Counted: true, Reason: `by "x"`}}, 200, "ping", `"cancel": true, "remaining_s": 0.000, "reason": "by \"x\""}`},
		"late":           {"GET", "", "", fakeBackend{reply: store.PingReply{Answer: store.Applied, Remaining: -time.Second}}, 200, "ping", `"remaining_s": 0.000`},
		"old":            {"GET", "", "", fakeBackend{}, 410, "ping", "task 4211 is not held with fence 9 any more: stop, and commit nothing"},
		"busy":           {"GET", "", "", fakeBackend{reply: store.PingReply{Answer: store.Busy}}, 503, "ping", "repeat the request"},
		"no store":       {"GET", "", "", fakeBackend{err: errors.New("secret of the inside")}, 503, "ping", "out of reach"},
		"malformed":      {"POST", "", `{"progress": 2}`, fakeBackend{reply: held}, 400, "", "from 0 to 1"},
		"not valid JSON": {"POST", "", `progress=0.4`, fakeBackend{reply: held}, 400, "", "not valid JSON"},
		"too large":      {"POST", "", `{"checkpoint": ` + checkpointOf(store.MaxCheckpoint+1) + `}`, fakeBackend{reply: held}, 413, "", "checkpoint has 65537 bytes"},
		"far too large":  {"POST", "", strings.Repeat(" ", MaxBody+1), fakeBackend{reply: held}, 413, "", "131072"},
		"PUT":            {"PUT", "", "", fakeBackend{reply: held}, 405, "", "use GET or POST"},
		"HEAD":           {"HEAD", "", "", fakeBackend{reply: held}, 405, "", ""},

		"complete":                 {"POST", "/complete", `{"result": {"a": 1}}`, fakeBackend{answer: store.Applied}, 200, `complete 4211.9 {"a": 1}`, `{"settled": true}`},
		"complete, bare":           {"POST", "/complete", "", fakeBackend{answer: store.Applied}, 200, "complete 4211.9 ", `{"settled": true}`},
		"complete, again":          {"POST", "/complete", "", fakeBackend{answer: store.Ended}, 200, "complete", `{"settled": true}`},
		"complete, old":            {"POST", "/complete", "", fakeBackend{answer: store.Lost}, 410, "complete", "commit nothing"},
		"complete, busy":           {"POST", "/complete", "", fakeBackend{answer: store.Busy}, 503, "complete", "repeat the request"},
		"complete, cancel pending": {"POST", "/complete", "", fakeBackend{answer: store.CancelPending}, 503, "complete", "repeat the request"},
		"complete, no store":       {"POST", "/complete", "", fakeBackend{answer: store.Applied, err: context.DeadlineExceeded}, 503, "complete", "out of reach"},
		"complete, malformed":      {"POST", "/complete", "[]", fakeBackend{answer: store.Applied}, 400, "", "not a JSON object"},
		"complete, too large":      {"POST", "/complete", `{"result": ` + checkpointOf(64<<10+1) + `}`, fakeBackend{answer: store.Applied}, 413, "", "result has 65537 bytes"},
		"complete, by GET":         {"GET", "/complete", "", fakeBackend{answer: store.Applied}, 405, "", "use POST"},
		"fail":                     {"POST", "/fail", `{"error": "why"}`, fakeBackend{answer: store.Applied}, 200, `fail 4211.9 "why" true`, `{"settled": true}`},
		"fail for good":            {"POST", "/fail", `{"error": "why", "retryable": false}`, fakeBackend{answer: store.Applied}, 200, `fail 4211.9 "why" false`, `{"settled": true}`},
		"fail, bare":               {"POST", "/fail", "", fakeBackend{answer: store.Applied}, 200, `fail 4211.9 "the task reported`, `{"settled": true}`},
		"fail, again":              {"POST", "/fail", "", fakeBackend{answer: store.Ended}, 200, "fail", `{"settled": true}`},
		"fail, old":                {"POST", "/fail", "", fakeBackend{answer: store.Lost}, 410, "fail", "commit nothing"},
		"fail, busy":               {"POST", "/fail", "", fakeBackend{answer: store.Busy}, 503, "fail", "repeat the request"},
		"fail, not so":             {"POST", "/fail", "", fakeBackend{err: &Error{Reason: "answer with an error instead"}}, 400, "fail", "answer with an error instead"},
		"fail, malformed":          {"POST", "/fail", `{"retryable": "yes"}`, fakeBackend{answer: store.Applied}, 400, "", "must be true or false"},
		"fail, a long error":       {"POST", "/fail", `{"error": "` + strings.Repeat("e", 2*task.MaxError) + `"}`, fakeBackend{answer: store.Applied}, 200, `fail 4211.9 "eee`, `{"settled": true}`},
		"fail, by GET":             {"GET", "/fail", "", fakeBackend{answer: store.Applied}, 405, "", "use POST"},
		"something else":           {"POST", "/retry", "", fakeBackend{}, 404, "", "no such ping URL"},
		"deeper":                   {"POST", "/complete/", "", fakeBackend{}, 404, "", "no such ping URL"},
		"nothing below a slash":    {"POST", "/", "", fakeBackend{}, 404, "", "no such ping URL"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, s, &c.fakeBackend, c.method, url+c.below, c.body)
			require.Equal(t, c.status, got.status, got.body)
			require.Contains(t, got.body, c.says)
			require.True(t, strings.HasPrefix(c.fakeBackend.took, c.took), c.fakeBackend.took)
			require.NotContains(t, c.fakeBackend.took, "for ever")
			if c.took == "" {
				require.Empty(t, c.fakeBackend.took, "it does not count")
			}
			require.NotContains(t, got.body, "secret of the inside")
			if c.status == http.StatusServiceUnavailable {
				require.Equal(t, "1", got.header.Get("Retry-After"))
			}
			if c.status == http.StatusMethodNotAllowed {
				require.NotEmpty(t, got.header.Get("Allow"))
			}
		})
	}
}

// A token that is not right, however little, gets one and the same answer, whatever is done with it.
func TestForgedRequestsLearnNothing(t *testing.T) {
	s, other := signer(t, "s"), signer(t, "o")
	good := s.URL("", 4211, 9)
	d := &fakeBackend{reply: store.PingReply{Answer: store.Applied, Counted: true}, answer: store.Applied}
	want := ask(t, s, d, "GET", Path+"x", "")
	require.Equal(t, http.StatusNotFound, want.status)
	for _, path := range []string{
		Path, other.URL("", 4211, 9), strings.Replace(good, "4211", "4212", 1), strings.Replace(good, ".9.", ".10.", 1),
		strings.Replace(good, "4211", "04211", 1), strings.Replace(good, "4211", "%34211", 1), strings.Replace(good, ".9.", "%2e9.", 1),
		good + "x", good + "%00", good + "/complete%20", Path + "4211.9.", Path + "..%2f" + good,
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			for _, below := range []string{"", "/complete", "/fail", "/other"} {
				got := ask(t, s, d, method, path+below, `{"progress": 2}`)
				require.Equal(t, want, got, "%s %s", method, path+below)
				require.Empty(t, d.took)
			}
		}
	}
	require.Equal(t, http.StatusOK, ask(t, s, d, "GET", good, "").status)
}

func TestNoSecretYet(t *testing.T) {
	got := ask(t, nil, &fakeBackend{}, "GET", signer(t, "s").URL("", 4211, 9), "")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "1", got.header.Get("Retry-After"))
}

// A body whose length is not said is bounded all the same, and one that breaks off is no ping.
func TestBodiesOverTheWire(t *testing.T) {
	s, d := signer(t, "s"), &fakeBackend{reply: store.PingReply{Answer: store.Applied, Counted: true}}
	server := httptest.NewServer(NewHandler(func() *Signer { return s }, d, slog.New(slog.DiscardHandler)))
	defer server.Close()
	url := s.URL(server.URL, 4211, 9)
	send := func(body io.Reader) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
		require.NoError(t, err)
		resp, err := server.Client().Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		return resp.StatusCode
	}
	chunked := func(text string) io.Reader { return io.MultiReader(strings.NewReader(text)) }
	require.Equal(t, http.StatusOK, send(chunked(`{"progress": 0.4}`)))
	require.Equal(t, `ping 4211.9 0.4 ""  0s`, d.took)
	require.Equal(t, http.StatusRequestEntityTooLarge, send(chunked(strings.Repeat(" ", MaxBody+1))))

	d.took = ""
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST "+strings.TrimPrefix(url, server.URL)+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{}")
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "400 Bad Request")
	require.Empty(t, d.took)
}

// quiet is a ResponseWriter that keeps nothing.
type quiet struct{ header http.Header }

func (q quiet) Header() http.Header           { return q.header }
func (quiet) Write(p []byte) (n int, e error) { return len(p), nil }
func (quiet) WriteHeader(int)                 {}

func BenchmarkHandler(b *testing.B) {
	s, d := signer(b, "s"), fast{}
	h := NewHandler(func() *Signer { return s }, d, slog.New(slog.DiscardHandler))
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, s.URL("", 4211, 9), http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		r.ContentLength, r.Body = int64(len(`{"progress": 0.4}`)), io.NopCloser(strings.NewReader(`{"progress": 0.4}`))
		h.ServeHTTP(quiet{http.Header{}}, r)
	}
}

// fast takes pings in and does nothing.
type fast struct{}

func (fast) Ping(context.Context, task.ID, task.Fence, store.Ping) (store.PingReply, error) {
	return store.PingReply{Answer: store.Applied, Counted: true}, nil
}

func (fast) Complete(context.Context, task.ID, task.Fence, json.RawMessage) (store.Answer, error) {
	return store.Applied, nil
}

func (fast) Fail(context.Context, task.ID, task.Fence, string, bool) (store.Answer, error) {
	return store.Applied, nil
}
