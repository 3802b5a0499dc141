package webhook

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// strict is an attempt whose pings count only if they report progress. It was claimed long enough ago for each ping that
// counts to move its lease.
func strict(heartbeat time.Duration) exectest.Attempt {
	return exectest.Attempt{
		Policy: task.Policy{Timeout: time.Minute, Heartbeat: heartbeat, RequireProgress: true, MaxHeartbeat: time.Minute},
		Age:    time.Second,
	}
}

// hasProgress requires that the lease knows this progress: the same once more is no change.
func hasProgress(t *testing.T, l *lease.Lease, progress string) {
	t.Helper()
	require.Equal(t, "progress did not change", l.Ping(store.Ping{Progress: json.RawMessage(progress)}).Reason)
}

// streaming serves a stream of these pieces, each flushed.
func streaming(t *testing.T, pieces ...string) *task.Webhook {
	t.Helper()
	return to(serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-ndjson; charset=utf-8")
		for _, piece := range pieces {
			_, _ = io.WriteString(w, piece)
			w.(http.Flusher).Flush()
		}
	}))
}

func TestStreamEnds(t *testing.T) {
	const unsaid = "the stream ended without a result or an error"
	for name, c := range map[string]struct {
		pieces []string
		want   task.Outcome
	}{
		"a result":              {[]string{"{}\n", `{"result": {"a": 1}}` + "\n"}, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`{"a": 1}`)}},
		"no line feed":          {[]string{"{}\n", `{"result": 5}`}, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("5")}},
		"in pieces":             {[]string{"{", "}\n", `{"res`, `ult": `, "5", "}", "\n"}, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("5")}},
		"no result":             {[]string{`{"result": null}` + "\n"}, task.Outcome{Verdict: task.Succeeded}},
		"a large result":        {[]string{`{"result": "` + strings.Repeat("r", task.MaxResult) + `"}` + "\n"}, task.Outcome{Verdict: task.Succeeded, Note: "result not kept: it has 65538 bytes, and the limit is 65536"}},
		"an error":              {[]string{"{}\n", `{"error": "no such video"}` + "\n"}, task.Outcome{Verdict: task.Failed, Error: "no such video"}},
		"an error, for good":    {[]string{`{"error": "no such video", "retryable": false}` + "\n"}, task.Outcome{Verdict: task.Rejected, Error: "no such video"}},
		"an error without text": {[]string{`{"error": ""}` + "\n"}, task.Outcome{Verdict: task.Failed, Error: "the stream ended with an error that it did not name"}},
		"the first end counts":  {[]string{`{"result": 1}` + "\n", `{"error": "late"}` + "\n", "garbage\n"}, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("1")}},
		"nothing":               {nil, task.Outcome{Verdict: task.Failed, Error: unsaid, EndUnknown: true}},
		"pings only":            {[]string{"{}\n", `{"progress": 1}` + "\n\n"}, task.Outcome{Verdict: task.Failed, Error: unsaid, EndUnknown: true}},
		"half an end":           {[]string{`{"result": 5`}, task.Outcome{Verdict: task.Failed, Error: unsaid + " (a ping was malformed and did not count: the line is not valid JSON: unexpected end of JSON input)", EndUnknown: true}},
		"a line too long":       {[]string{`{"result": "` + strings.Repeat("r", maxLine), `"}`}, task.Outcome{Verdict: task.Failed, Error: unsaid + " (a ping was malformed and did not count: a line is too long)", EndUnknown: true}},
		"malformed lines":       {[]string{"<b>Warning</b>\n", "0.4\n", `{"progress": 2}` + "\n"}, task.Outcome{Verdict: task.Failed, Error: unsaid + ` (3 pings were malformed and did not count, the last one because progress is 2, but a number must be from 0 to 1: write {"done": …, "total": …} or a string for anything else)`, EndUnknown: true}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, run(t, client(t), exectest.Attempt{}, streaming(t, c.pieces...)))
		})
	}
}

// What a stream says counts as it says it, and what is no ping does not.
func TestStreamPings(t *testing.T) {
	l := strict(30 * time.Second).Lease()
	defer l.Close()
	var moved atomic.Int32
	moves := make(chan struct{}, 100)
	l.OnMove(func() {
		moved.Add(1)
		moves <- struct{}{}
	})
	w := to(serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-ndjson")
		say := func(text string) {
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
		say("\n\n  \n{}\n0.1\nword\n# comment\n: keep-alive\n{\"progress\": 2}\n{\"message\": \"hello\"}\n")
		say(`{"progress": 0.4, "checkpoint": {"page": 40}}` + "\n")
		<-moves
		say(`{"progress": 0.40}` + "\n") // repeated: received, and it does not renew
		say(`{"checkpoint": {"page": 41}}` + "\n")
		<-moves
		say(`{"result": null}` + "\n")
	}))
	o := client(t).Run(l, declared(w), w)
	require.Equal(t, task.Outcome{Verdict: task.Succeeded}, o)
	require.EqualValues(t, 2, moved.Load())
	hasProgress(t, l, "0.4")
	require.Equal(t, "progress did not change", l.Ping(store.Ping{Checkpoint: json.RawMessage(`{"page":41}`)}).Reason)
}

// A stream that hangs is detected although its connection is open, and the server sees that.
func TestStreamStalls(t *testing.T) {
	for name, line := range map[string]string{
		"silent": "", "blank lines": "\n", "no progress": `{"progress": 0.4}` + "\n", "malformed": "working\n",
	} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			w := to(serve(t, func(w http.ResponseWriter, r *http.Request) {
				defer close(over)
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/x-ndjson")
				_, _ = io.WriteString(w, `{"progress": 0.4}`+"\n")
				w.(http.Flusher).Flush()
				again := time.NewTicker(10 * time.Millisecond)
				defer again.Stop()
				for {
					select {
					case <-r.Context().Done():
						return
					case <-again.C:
						_, _ = io.WriteString(w, line)
						w.(http.Flusher).Flush()
					}
				}
			}))
			o := run(t, client(t), strict(200*time.Millisecond), w)
			require.Equal(t, task.Stalled, o.Verdict)
			require.True(t, o.EndUnknown, "the handler may still be at work")
			require.Equal(t, name == "malformed", strings.Contains(o.Error, "malformed"), o.Error)
			<-over
		})
	}
}

func TestStreamBreaksOff(t *testing.T) {
	for name, c := range map[string]struct {
		sent string
		want task.Outcome
	}{
		"after a ping": {"2\r\n{}\r\n1\r\n\n\r\n", task.Outcome{Verdict: task.Failed, Error: "the stream broke off: unexpected EOF", EndUnknown: true}},
		"after its end": {fmt.Sprintf("%x\r\n%s\r\n", len(`{"result": 1}`)+1, `{"result": 1}`+"\n"),
			task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("1")}},
		"right after its end": {fmt.Sprintf("%x\r\n%s\r\n", len(`{"result": 1}`), `{"result": 1}`),
			task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("1")}},
	} {
		t.Run(name, func(t *testing.T) {
			w := to(raw(t, func(conn net.Conn) {
				if request(conn) {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"+c.sent)
				}
			}))
			require.Equal(t, c.want, run(t, client(t), exectest.Attempt{}, w))
		})
	}
}

// A server that keeps the stream open after the last line does not keep the slot.
func TestStreamLingers(t *testing.T) {
	over := make(chan struct{})
	w := to(serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(over)
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, `{"result": 1}`+"\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	began := time.Now()
	o := run(t, client(t), exectest.Attempt{}, w)
	require.Equal(t, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("1")}, o)
	require.GreaterOrEqual(t, time.Since(began), lingerFor)
	<-over
}

// A server that ends its stream in peace keeps its connection.
func TestStreamKeepsItsConnection(t *testing.T) {
	c := client(t)
	w := streaming(t, "{}\n", `{"result": 1}`+"\n")
	for range 3 {
		require.Equal(t, task.Succeeded, run(t, c, exectest.Attempt{}, w).Verdict)
	}
}

// Who pings without a pause is slowed down, and does not hold up its own end.
func TestStreamFloods(t *testing.T) {
	flood := strings.Repeat("{}\n", 20_000)
	o := run(t, client(t), exectest.Attempt{}, streaming(t, flood, `{"result": 1}`+"\n"))
	require.Equal(t, task.Succeeded, o.Verdict)
	require.Zero(t, ping.Pause(20*time.Microsecond))
	require.Equal(t, 9*time.Millisecond, ping.Pause(time.Millisecond))
	require.Equal(t, 50*time.Millisecond, ping.Pause(time.Hour))
}

func TestStreamOfACancelledTask(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want task.Outcome
	}{
		"gives up":      {`{"error": "was told to stop"}`, task.Outcome{Verdict: task.Cancelled, Error: "by hand (was told to stop)"}},
		"was done":      {`{"result": 1}`, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("1")}},
		"says nothing":  {"", task.Outcome{Verdict: task.Cancelled, Error: "by hand", EndUnknown: true}},
		"goes on, dumb": {"{}", task.Outcome{Verdict: task.Cancelled, Error: "by hand", EndUnknown: true}},
	} {
		t.Run(name, func(t *testing.T) {
			l := exectest.Attempt{}.Lease()
			defer l.Close()
			w := to(serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/x-ndjson")
				_, _ = io.WriteString(w, "{}\n")
				w.(http.Flusher).Flush()
				l.Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "by hand"})
				_, _ = io.WriteString(w, c.line+"\n")
			}))
			w.CancelGrace = 10 * time.Second
			require.Equal(t, c.want, client(t).Run(l, declared(w), w))
		})
	}
}

// 202 leaves the task running where that was declared, and only there.
func TestAccepted(t *testing.T) {
	answer := func(status int) *task.Webhook {
		return to(serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"job": 7}`)
		}))
	}
	plain, async, permanent := answer(202), answer(202), answer(202)
	async.Async, permanent.Async, permanent.Permanent = true, true, []int{202}
	require.Equal(t, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`{"job": 7}`)}, run(t, client(t), exectest.Attempt{}, plain))
	require.Equal(t, task.Outcome{Accepted: true}, run(t, client(t), exectest.Attempt{}, async))
	require.Equal(t, task.Rejected, run(t, client(t), exectest.Attempt{}, permanent).Verdict)
	other := answer(200)
	other.Async = true
	require.Equal(t, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`{"job": 7}`)}, run(t, client(t), exectest.Attempt{}, other))

	l := exectest.Attempt{}.Lease()
	defer l.Close()
	late := to(serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		l.Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "by hand"})
		w.WriteHeader(http.StatusAccepted)
	}))
	late.Async, late.CancelGrace = true, 10*time.Second
	require.Equal(t, task.Outcome{Verdict: task.Cancelled, Error: "by hand", EndUnknown: true}, client(t).Run(l, declared(late), late),
		"it goes on, though it is cancelled: nothing is rolled back before its lease's end")
}
