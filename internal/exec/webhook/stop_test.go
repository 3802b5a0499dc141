package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func TestTimeout(t *testing.T) {
	for name, begin := range map[string]string{
		"silent":           "",
		"slow header":      "HTTP/1.1 200 OK\r\nX-A: ",
		"slow body":        "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
		"slow body of 422": "HTTP/1.1 422 No\r\nContent-Length: 1000000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			w := to(raw(t, func(c net.Conn) {
				defer close(over)
				if request(c) {
					_, _ = io.WriteString(c, begin)
					for _, err := io.WriteString(c, begin[:min(len(begin), 1)]); err == nil && begin != ""; {
						_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond)) // a byte now and then
						if _, rerr := c.Read(make([]byte, 1)); errors.Is(rerr, io.EOF) {
							return
						}
						_, err = io.WriteString(c, "a")
					}
					closed(c)
				}
			}))
			o := run(t, client(t), exectest.Attempt{Policy: task.Policy{Timeout: 100 * time.Millisecond}}, w)
			require.Contains(t, o.Error, "100ms")
			o.Error = ""
			require.Equal(t, task.Outcome{Verdict: task.TimedOut, EndUnknown: true}, o)
			<-over // the server has seen the connection close
		})
	}
}

func TestEndlessBody(t *testing.T) {
	over := make(chan struct{})
	w := to(serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(over)
		for block := make([]byte, 64<<10); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	o := run(t, client(t), exectest.Attempt{Policy: task.Policy{Timeout: time.Minute}}, w)
	require.Equal(t, task.Failed, o.Verdict)
	require.True(t, o.EndUnknown)
	require.Nil(t, o.Result)
	<-over
}

// An attempt that times out before there is a connection never started.
func TestTimeoutWithoutConnection(t *testing.T) {
	c := client(t)
	dialing := make(chan struct{}, 1)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	c.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		dialing <- struct{}{}
		<-stop
		return nil, fmt.Errorf("no way")
	}
	o := run(t, c, exectest.Attempt{Policy: task.Policy{Timeout: 50 * time.Millisecond}}, to("http://192.0.2.1"))
	<-dialing
	require.Equal(t, task.Undelivered, o.Verdict)
	require.True(t, o.NeverStarted)
	require.False(t, o.EndUnknown)
}

func TestStops(t *testing.T) {
	for _, v := range []task.Verdict{task.Lost, task.Drained, task.Stalled} {
		t.Run(string(v), func(t *testing.T) {
			got, over := make(chan struct{}), make(chan struct{})
			w := to(serve(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				close(got)
				<-r.Context().Done() // the connection is closed
				close(over)
			}))
			w.CancelGrace = time.Hour // only a cancellation has a grace
			l := exectest.Attempt{}.Lease()
			defer l.Close()
			go func() {
				<-got
				l.Stop(&lease.Cause{Verdict: v, Reason: "why"})
			}()
			want := "why"
			if v == task.Stalled {
				want += ", none at all since the request was sent: is the server busy with other requests?"
			}
			o := client(t).Run(l, declared(w), w)
			require.Equal(t, task.Outcome{Verdict: v, Error: want, EndUnknown: true}, o)
			<-over
		})
	}
}

// An attempt that has pinged was not left in its server's queue, whatever that ping counted for, nor was one whose response has begun. Of one
// whose pings count with progress only the agent may not know.
func TestAStallAfterASignNamesNoBusyServer(t *testing.T) {
	stalled := &lease.Cause{Verdict: task.Stalled, Reason: "why"}
	for name, c := range map[string]struct {
		policy task.Policy
		sign   func(w http.ResponseWriter, l *lease.Lease)
	}{
		"a ping": {sign: func(_ http.ResponseWriter, l *lease.Lease) { l.Ping(store.Ping{}) }},
		"a response": {sign: func(w http.ResponseWriter, _ *lease.Lease) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			_ = http.NewResponseController(w).Flush()
		}},
		"unknown": {policy: task.Policy{RequireProgress: true}, sign: func(http.ResponseWriter, *lease.Lease) {}},
	} {
		t.Run(name, func(t *testing.T) {
			l := exectest.Attempt{Policy: c.policy}.Lease()
			defer l.Close()
			w := to(serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				c.sign(w, l)
				time.AfterFunc(50*time.Millisecond, func() { l.Stop(stalled) })
				<-r.Context().Done()
			}))
			require.Equal(t, task.Outcome{Verdict: task.Stalled, Error: "why", EndUnknown: true}, client(t).Run(l, declared(w), w))
		})
	}
}

func TestStoppedBeforeSending(t *testing.T) {
	w := to(serve(t, func(http.ResponseWriter, *http.Request) { t.Error("sent") }))
	l := exectest.Attempt{}.Lease()
	defer l.Close()
	l.Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "by hand"})
	o := client(t).Run(l, declared(w), w)
	require.Equal(t, task.Outcome{Verdict: task.Cancelled, Error: "by hand", NeverStarted: true}, o)

	parent, cancel := context.WithCancel(context.Background())
	cancel()
	o = run(t, client(t), exectest.Attempt{Parent: parent}, w)
	require.Equal(t, task.Outcome{Verdict: task.Drained, Error: "the agent is stopping", NeverStarted: true}, o)
}

func TestCancelGrace(t *testing.T) {
	for name, c := range map[string]struct {
		grace  time.Duration
		status int // 0: no answer at all
		want   task.Outcome
	}{
		"finishes":  {time.Hour, 204, task.Outcome{Verdict: task.Succeeded}},
		"tidies up": {time.Hour, 500, task.Outcome{Verdict: task.Cancelled, Error: "by hand (answered 500: Internal Server Error)"}},
		"ignores":   {time.Millisecond, 0, task.Outcome{Verdict: task.Cancelled, Error: "by hand", EndUnknown: true}},
	} {
		t.Run(name, func(t *testing.T) {
			l := exectest.Attempt{Policy: task.Policy{Stop: 2 * time.Hour}}.Lease()
			defer l.Close()
			w := to(serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				l.Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "by hand"})
				if c.status == 0 {
					<-r.Context().Done()
					return
				}
				w.WriteHeader(c.status)
			}))
			w.CancelGrace = c.grace
			require.Equal(t, c.want, client(t).Run(l, declared(w), w))
		})
	}
}

// A cancelled attempt that was not sent yet is not sent within the grace either.
func TestCancelledWhileConnecting(t *testing.T) {
	l := exectest.Attempt{Policy: task.Policy{Stop: 2 * time.Hour}}.Lease()
	defer l.Close()
	w := to(serve(t, func(http.ResponseWriter, *http.Request) { t.Error("sent") }))
	w.CancelGrace = time.Hour
	c := client(t)
	dial := c.transport.DialContext
	c.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		l.Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "by hand"})
		return dial(ctx, network, address)
	}
	o := c.Run(l, declared(w), w)
	require.Equal(t, task.Outcome{Verdict: task.Cancelled, Error: "by hand", NeverStarted: true}, o)
}

// A grace that would reach past the moment to kill is cut short.
func TestCancelGraceEndsWithTheLease(t *testing.T) {
	began := time.Now()
	l := exectest.Attempt{Presence: func() time.Duration { return lease.KillMargin }}.Lease()
	defer l.Close()
	w := to(serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		l.Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "by hand"})
		<-r.Context().Done()
	}))
	w.CancelGrace = time.Hour
	require.True(t, client(t).Run(l, declared(w), w).EndUnknown)
	require.Less(t, time.Since(began), 30*time.Second)
}
