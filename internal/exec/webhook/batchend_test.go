package webhook

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// A task that must stop ends with its cause, and its line is refused; the others go on, on the same connection.
func TestBatchTaskThatStops(t *testing.T) {
	for _, v := range []task.Verdict{task.Stalled, task.TimedOut, task.Lost, task.Drained} {
		t.Run(string(v), func(t *testing.T) {
			k, url := newTalk(t)
			ls := leases(t, 3, exectest.Attempt{})
			o, over := begin(t, quiet(t), ls, batched(url))
			<-k.came
			ls[1].Stop(&lease.Cause{Verdict: v, Reason: "because"})
			require.Equal(t, 1, <-o.each)
			require.Equal(t, task.Outcome{Verdict: v, Error: "because", EndUnknown: true}, o.get(1))
			k.say <- `{"id":2,"result":"late"}`
			k.say <- `{"id":1,"result":1}`
			k.say <- `{"id":3,"result":1}`
			o.wait(2)
			k.say <- ""
			<-over
			require.Equal(t, v, o.get(1).Verdict, "the late line is refused")
			require.Zero(t, o.more)
			require.Equal(t, task.Succeeded, o.get(0).Verdict)
			require.Equal(t, task.Succeeded, o.get(2).Verdict)
		})
	}
}

// When the last task has ended without a line, the connection is closed.
func TestBatchIsCutWhenTheLastHasEnded(t *testing.T) {
	k, url := newTalk(t)
	ls := leases(t, 2, exectest.Attempt{})
	o, over := begin(t, quiet(t), ls, batched(url))
	<-k.came
	k.say <- `{"id":1,"result":1}`
	o.wait(1)
	ls[1].Stop(&lease.Cause{Verdict: task.Stalled})
	<-over
	<-k.gone
	require.Equal(t, task.Stalled, o.get(1).Verdict)
}

// A cancelled task is told so by its pings, for as long as its grace; its line ends it, and is refused.
func TestBatchTaskThatIsCancelled(t *testing.T) {
	k, url := newTalk(t)
	ls := leases(t, 3, exectest.Attempt{})
	w := batched(url)
	w.CancelGrace = time.Minute
	o, over := begin(t, quiet(t), ls, w)
	<-k.came
	ls[0].Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "by alice"})
	require.True(t, ls[0].Ping(store.Ping{}).Cancel)
	k.say <- `{"id":1,"result":1}`
	o.wait(1)
	require.Equal(t, task.Outcome{Verdict: task.Cancelled, Error: "by alice"}, o.get(0), "nothing of it is at work any more")
	ls[1].Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "by alice"})
	k.say <- ""
	<-over
	require.Equal(t, task.Cancelled, o.get(1).Verdict)
	require.True(t, o.get(1).EndUnknown)
	require.Equal(t, task.Failed, o.get(2).Verdict)
}

// Without a line, a cancelled task ends with its grace.
func TestBatchTaskWhoseGraceIsOver(t *testing.T) {
	k, url := newTalk(t)
	ls := leases(t, 2, exectest.Attempt{})
	w := batched(url)
	w.CancelGrace = 50 * time.Millisecond
	o, over := begin(t, quiet(t), ls, w)
	<-k.came
	ls[0].Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "by alice"})
	o.wait(1)
	require.Equal(t, task.Outcome{Verdict: task.Cancelled, Error: "by alice", EndUnknown: true}, o.get(0))
	k.say <- `{"id":2,"result":1}`
	o.wait(1)
	k.say <- ""
	<-over
}

// What had ended before the request was sent is not in it, and a request that is too large goes without its last tasks.
func TestBatchLeavesOut(t *testing.T) {
	var sent []element
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = elementsOf(t, body)
		w.WriteHeader(http.StatusNoContent)
	})
	ls := leases(t, 4, exectest.Attempt{Task: task.Task{Payload: json.RawMessage(`"` + strings.Repeat("x", 3<<20) + `"`)}})
	ls[0].Stop(&lease.Cause{Verdict: task.Cancelled})
	out := runMany(t, quiet(t), ls, batched(url))
	require.Len(t, sent, 2)
	require.Equal(t, task.Outcome{Verdict: task.Cancelled, NeverStarted: true}, out[0])
	require.Equal(t, task.Succeeded, out[1].Verdict)
	require.Equal(t, task.Succeeded, out[2].Verdict)
	require.Equal(t, task.Drained, out[3].Verdict)
	require.True(t, out[3].NeverStarted)
	ls = leases(t, 1, exectest.Attempt{Task: task.Task{Payload: json.RawMessage(`"` + strings.Repeat("x", 9<<20) + `"`)}})
	require.Equal(t, task.Succeeded, runMany(t, quiet(t), ls, batched(url))[0].Verdict, "a task that is too large for others goes alone")
}

// A target that is not there: nothing was delivered.
func TestBatchUndelivered(t *testing.T) {
	for _, end := range runMany(t, quiet(t), leases(t, 2, exectest.Attempt{}), batched(refusing(t))) {
		require.Equal(t, task.Undelivered, end.Verdict)
		require.True(t, end.NeverStarted)
		require.False(t, end.Shared)
	}
}

// Before a request is sent again of which nothing left, the tasks that have ended leave it, and it is signed anew. They never started.
func TestBatchIsWrittenAnewWithoutWhatHasEnded(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	hook, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	for name, fails := range map[string]int{
		"while it was connecting": 0, "after a try that failed": 1, "after tries that failed, the first of them anew": 2, "after many": 4,
	} {
		t.Run(name, func(t *testing.T) {
			var sent [][]element
			w := batched(serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if err := hook.Verify(body, r.Header); err != nil {
					t.Error(err)
				}
				sent = append(sent, elementsOf(t, body))
				w.WriteHeader(http.StatusNoContent)
			}))
			w.Secrets = []string{secret}
			c := quiet(t)
			ls := leases(t, 3, exectest.Attempt{})
			tries, ended := 0, make(chan struct{})
			c.tries = roundTrip(func(r *http.Request) (*http.Response, error) {
				if tries++; tries == 1 {
					ls[0].Stop(&lease.Cause{Verdict: task.TimedOut, Reason: "because"})
					ls[2].Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "because"})
					<-ended
					<-ended
				}
				if tries <= fails {
					return nil, io.ErrUnexpectedEOF
				}
				return c.transport.RoundTrip(r)
			})
			o := &outcomes{of: map[int]task.Outcome{}, each: make(chan int, 3)}
			c.RunMany(ls, declared(w), w, func(i int, end task.Outcome) {
				o.ended(i, end)
				if i != 1 {
					ended <- struct{}{}
				}
			})
			require.Len(t, sent, 1)
			require.Len(t, sent[0], 1)
			require.EqualValues(t, 2, sent[0][0].Task.ID)
			require.Equal(t, task.Outcome{Verdict: task.Undelivered, Error: "no connection: because", NeverStarted: true}, o.get(0))
			require.Equal(t, task.Outcome{Verdict: task.Cancelled, Error: "because", NeverStarted: true}, o.get(2))
			require.Equal(t, task.Succeeded, o.get(1).Verdict)
			require.Zero(t, o.more)
		})
	}
}

// The same where a connection was had, so that what ended meanwhile may have started, and then it turned out that nothing had left: the next
// try does not send it. What was cancelled has no grace then.
func TestBatchIsWrittenAnewAfterAConnectionThatTookNothing(t *testing.T) {
	w := batched("http://127.0.0.1:1")
	w.CancelGrace = time.Minute
	ls := leases(t, 3, exectest.Attempt{})
	o := &outcomes{of: map[int]task.Outcome{}, each: make(chan int, 3)}
	b := &batch{typ: declared(w), target: w, ended: o.ended, byID: map[task.ID]*entry{}}
	b.ctx, b.cancel = context.WithCancel(t.Context())
	m := b.message(quiet(t), ls)
	b.watch()
	require.True(t, b.commit())

	ls[0].Stop(&lease.Cause{Verdict: task.Lost, Reason: "because"})
	require.Equal(t, 0, <-o.each)
	require.True(t, o.get(0).EndUnknown)
	b.renew(m)
	sent := elementsOf(t, m.Body)
	require.Len(t, sent, 2)
	require.EqualValues(t, 2, sent[0].Task.ID)
	require.True(t, b.commit())

	cancel := func(i int) {
		ls[i].Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "because"})
		require.Eventually(t, func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.rows[i].cancelled
		}, time.Minute, time.Millisecond)
		b.renew(m)
		require.Equal(t, i, <-o.each)
		require.Equal(t, task.Outcome{Verdict: task.Cancelled, Error: "because", NeverStarted: true}, o.get(i))
	}
	cancel(2)
	sent = elementsOf(t, m.Body)
	require.Len(t, sent, 1)
	require.EqualValues(t, 2, sent[0].Task.ID)
	require.True(t, b.commit())
	cancel(1)
	<-b.ctx.Done() // nothing is left to send
	b.watching.Wait()
	require.Zero(t, o.more)
}

// A target that floods the agent with what is of no use is cut off, and so is one whose lines never end; what they have said counts.
func TestBatchOfNoise(t *testing.T) {
	for name, noise := range map[string]string{
		"lines of no task": strings.Repeat(`{"id":99,"result":1}`+"\n", 1000),
		"blank lines":      strings.Repeat("\n", 20_000),
		"no JSON":          strings.Repeat("warning: deprecated\n", 1000),
		"a line too long":  strings.Repeat("x", 20_000),
		"an array of junk": strings.Repeat("[],", 7000),
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if name == "an array of junk" {
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, "[")
				} else {
					w.Header().Set("Content-Type", ndjsonType)
				}
				_, _ = io.WriteString(w, `{"id":1,"result":1}`)
				_, _ = io.WriteString(w, map[bool]string{true: ",", false: "\n"}[name == "an array of junk"])
				for {
					if _, err := io.WriteString(w, noise); err != nil {
						return
					}
				}
			})
			ls := leases(t, 2, exectest.Attempt{Policy: task.Policy{Timeout: time.Second}})
			out := runMany(t, quiet(t), ls, batched(url))
			require.Equal(t, task.Succeeded, out[0].Verdict)
			require.Contains(t, []task.Verdict{task.TimedOut, task.Drained}, out[1].Verdict)
			require.True(t, out[1].EndUnknown)
		})
	}
}

// A response that goes on after the last task has ended does not keep the slot.
func TestBatchThatDoesNotEnd(t *testing.T) {
	stop := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", ndjsonType)
		_, _ = io.WriteString(w, "{\"id\":1,\"result\":1}\n{\"id\":2,\"result\":1}\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	defer close(stop)
	began := time.Now()
	for _, end := range runMany(t, quiet(t), leases(t, 2, exectest.Attempt{}), batched(url)) {
		require.Equal(t, task.Succeeded, end.Verdict)
	}
	require.Less(t, time.Since(began), 10*time.Second)
}
