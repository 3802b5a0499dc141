package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// asked is a server that takes checks at /check and attempts at every other path, and keeps what came.
type asked struct {
	url   string
	check http.HandlerFunc

	mu    sync.Mutex
	paths []string
	ids   []string
	sent  []map[string]any // the task's members
}

func serveChecks(t *testing.T, check http.HandlerFunc) *asked {
	t.Helper()
	a := &asked{check: check}
	s := httptest.NewServer(a)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	a.url = s.URL
	return a
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var doc struct {
		Task map[string]any `json:"task"`
	}
	_ = json.NewDecoder(r.Body).Decode(&doc)
	_, _ = io.Copy(io.Discard, r.Body)
	a.mu.Lock()
	a.paths = append(a.paths, r.URL.Path+" "+r.Header.Get("Leasehold-Phase"))
	a.ids, a.sent = append(a.ids, r.Header.Get("Webhook-Id")), append(a.sent, doc.Task)
	a.mu.Unlock()
	if r.URL.Path == "/check" {
		a.check(w, r)
		return
	}
	_, _ = io.WriteString(w, `"ran"`)
}

func (a *asked) came() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.paths)
}

func (a *asked) typ() *task.Type {
	return &task.Type{
		Name: "a", Policy: task.Policy{Check: 5 * time.Second},
		Target:   &task.Webhook{URL: exectest.Text(a.url + "/run")},
		Check:    &task.Webhook{URL: exectest.Text(a.url + "/check"), Permanent: []int{400}},
		Rollback: &task.Webhook{URL: exectest.Text(a.url + "/undo")},
	}
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// lease is what an attempt of such a type holds.
func checkLease(change ...func(*exectest.Attempt)) *lease.Lease {
	a := exectest.Attempt{Task: task.Task{ID: 7, Fence: 12}, Policy: task.Policy{Check: 5 * time.Second}}
	for _, c := range change {
		c(&a)
	}
	return a.Lease()
}

func TestWhatACheckSays(t *testing.T) {
	failed := func(reason string) *task.Outcome {
		return &task.Outcome{Verdict: task.Failed, Error: "check: " + reason}
	}
	const neither = `the response is neither {"done": true} nor {"done": false}: `
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   *task.Outcome // nil: the task is run
	}{
		"done":              {says(200, `{"done": true}`), &task.Outcome{Verdict: task.Succeeded}},
		"done, and what":    {says(200, ` {"result": {"n": [1]}, "done":true} `), &task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`{"n": [1]}`)}},
		"done, null":        {says(201, `{"done": true, "result": null}`), &task.Outcome{Verdict: task.Succeeded}},
		"not done":          {says(200, `{"done": false, "result": 1}`), nil},
		"204":               {says(204, ""), nil},
		"nothing":           {says(200, " \n"), nil},
		"something else":    {says(200, `{"ok": 1}`), failed(neither + `{"ok": 1}`)},
		"no boolean":        {says(200, `{"done": "true"}`), failed(neither + `{"done": "true"}`)},
		"another name":      {says(200, `{"Done": true}`), failed(neither + `{"Done": true}`)},
		"no object":         {says(200, `true`), failed(neither + `true`)},
		"text":              {says(200, "ok"), failed(neither + `"ok"`)},
		"too long":          {says(200, `{"done": true, "result": "`+string(bytes.Repeat([]byte("x"), task.MaxResult))+`"}`), failed("result not kept: it has 65564 bytes, and the limit is 65536")},
		"failed":            {says(500, "oops"), failed("answered 500: oops")},
		"not found":         {says(404, ""), failed("answered 404: Not Found")},
		"rejected":          {says(422, `{"done": true}`), &task.Outcome{Verdict: task.Rejected, Error: `check: answered 422: {"done": true}`}},
		"declared":          {says(400, ""), &task.Outcome{Verdict: task.Rejected, Error: "check: answered 400: Bad Request"}},
		"deferred":          {says(429, ""), &task.Outcome{Verdict: task.Deferred, Error: "check: answered 429: Too Many Requests"}},
		"unavailable":       {says(503, ""), &task.Outcome{Verdict: task.Deferred, Error: "check: answered 503: Service Unavailable", Unavailable: true}},
		"202 is a 2xx here": {says(202, `{"done": true}`), &task.Outcome{Verdict: task.Succeeded}},
	} {
		t.Run(name, func(t *testing.T) {
			a := serveChecks(t, c.answer)
			l := checkLease()
			defer l.Close()
			o := runner(t, io.Discard).Run(l, a.typ())
			if c.want == nil {
				require.Equal(t, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`"ran"`)}, o)
				require.Equal(t, []string{"/check check", "/run run"}, a.came())
				return
			}
			c.want.InCheck, c.want.NeverStarted = true, true
			require.Equal(t, *c.want, o)
			require.Equal(t, []string{"/check check"}, a.came(), "it is not run")
		})
	}
}

func TestCheckIsSentInTheNameOfItsAttempt(t *testing.T) {
	a := serveChecks(t, says(204, ""))
	l := checkLease(func(a *exectest.Attempt) { a.Task.Round = 1 })
	defer l.Close()
	l.SetPingURL(func() string { return "http://127.0.0.1:7070/ping/x" })
	require.Equal(t, task.Succeeded, runner(t, io.Discard).Run(l, a.typ()).Verdict)
	require.Equal(t, []string{"task_7_check_12", "task_7_r1"}, a.ids)
	require.Equal(t, "check", a.sent[0]["phase"])
	require.Nil(t, a.sent[0]["ping_url"])
	require.Nil(t, a.sent[0]["heartbeat_s"])
	require.InDelta(t, 5, a.sent[0]["remaining_s"], 0.1)
	require.Equal(t, "run", a.sent[1]["phase"])
	require.NotNil(t, a.sent[1]["ping_url"])
	require.InDelta(t, 30, a.sent[1]["remaining_s"], 0.1, "its time begins with it")
}

func TestNoCheckBeforeARollback(t *testing.T) {
	a := serveChecks(t, says(200, `{"done": true}`))
	l := checkLease(func(a *exectest.Attempt) {
		a.Task.State, a.Task.Cause = task.StateRollbackRunning, task.Failed
	})
	defer l.Close()
	o := runner(t, io.Discard).Run(l, a.typ())
	require.Equal(t, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`"ran"`)}, o)
	require.Equal(t, []string{"/undo rollback"}, a.came())
	require.Equal(t, []string{"task_7_rollback"}, a.ids)
	require.Equal(t, "failed", a.sent[0]["outcome"])
}

func TestCheckThatHangs(t *testing.T) {
	a := serveChecks(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	l := checkLease(func(a *exectest.Attempt) { a.Policy.Check = 50 * time.Millisecond })
	defer l.Close()
	r := runner(t, io.Discard)
	require.Equal(t, task.Outcome{
		Verdict: task.TimedOut, Error: "check: ran longer than its timeout of 50ms", EndUnknown: true, NeverStarted: true, InCheck: true,
	}, r.Run(l, a.typ()))
	require.Equal(t, []string{"/check check"}, a.came())
	require.Nil(t, l.Cause())
	n, _ := r.Breakers().Room("a", task.Check)
	require.Equal(t, -1, n, "it was there")
}

func TestCheckIsStoppedLikeItsAttempt(t *testing.T) {
	for _, verdict := range []task.Verdict{task.Cancelled, task.Drained, task.Lost} {
		ctx, came := context.WithCancel(t.Context())
		a := serveChecks(t, func(_ http.ResponseWriter, r *http.Request) {
			came()
			<-r.Context().Done()
		})
		l := checkLease()
		go func() {
			<-ctx.Done()
			l.Stop(&lease.Cause{Verdict: verdict, Reason: "because"})
		}()
		require.Equal(t, task.Outcome{
			Verdict: verdict, Error: "check: because", EndUnknown: true, NeverStarted: true, InCheck: true,
		}, runner(t, io.Discard).Run(l, a.typ()))
		l.Close()
	}
}

// The answer of a check that ends in time counts although the check was being stopped: a task that is done has succeeded,
// and one that is not done is not started.
func TestCheckThatAnswersWhileItIsStopped(t *testing.T) {
	for done, want := range map[bool]task.Verdict{true: task.Succeeded, false: task.Cancelled} {
		l := checkLease()
		a := serveChecks(t, func(w http.ResponseWriter, _ *http.Request) {
			l.Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "because"})
			_, _ = fmt.Fprintf(w, `{"done": %t}`, done)
		})
		typ := a.typ()
		typ.Check.(*task.Webhook).CancelGrace = 5 * time.Second
		o := runner(t, io.Discard).Run(l, typ)
		require.Equal(t, want, o.Verdict)
		require.True(t, o.NeverStarted)
		require.Equal(t, []string{"/check check"}, a.came())
		l.Close()
	}
}

func TestNothingIsRunForATaskThatHasCompletedItselfMeanwhile(t *testing.T) {
	l := checkLease(func(a *exectest.Attempt) { a.Policy.Timeout = time.Hour })
	defer l.Close()
	a := serveChecks(t, says(204, ""))
	a.check = func(w http.ResponseWriter, _ *http.Request) {
		new(lease.Keeper).Ended(l)
		w.WriteHeader(http.StatusNoContent)
	}
	o := runner(t, io.Discard).Run(l, a.typ())
	require.Equal(t, task.Drained, o.Verdict)
	require.True(t, o.InCheck)
	require.Equal(t, []string{"/check check"}, a.came())
}

func TestCheckThatLeavesNoTimeForItsAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		check time.Duration
		age   time.Duration
		want  task.Verdict
	}{
		"by its own fault":   {time.Nanosecond, 2 * time.Second, task.TimedOut},
		"by the agent's own": {time.Minute, time.Minute + 2*time.Second, task.Drained},
	} {
		t.Run(name, func(t *testing.T) {
			l := checkLease(func(a *exectest.Attempt) { a.Policy.Check, a.Age = c.check, c.age })
			defer l.Close()
			k := l.Check()
			defer k.Close()
			k.Start()
			o, over := beforeRun(l, k, task.Outcome{})
			require.True(t, over)
			require.Equal(t, c.want, o.Verdict)
		})
	}
}

// While something of a check cannot be killed its attempt does not begin, and its slot is not another's.
func TestNothingIsRunBesideACheckThatCannotBeKilled(t *testing.T) {
	l := checkLease()
	defer l.Close()
	c := l.Check()
	defer c.Close()
	c.Start()
	stuck := make(chan struct{})
	o, over := beforeRun(l, c, task.Outcome{Stuck: stuck})
	require.True(t, over)
	require.Equal(t, task.Outcome{
		Verdict: task.Failed, Error: "processes of it are still there after SIGKILL", EndUnknown: true, Stuck: stuck,
	}, o)
}

// A check has a breaker of its own. While the check's target is out of reach its tasks are released, and neither breaker
// counts the other's failures.
func TestBreakerOfACheck(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	gone := s.URL
	s.Close()
	a := serveChecks(t, says(204, ""))
	typ := a.typ()
	typ.Check = &task.Webhook{URL: exectest.Text(gone)}
	r := runner(t, io.Discard)
	try := func(id task.ID) task.Outcome {
		l := checkLease(func(a *exectest.Attempt) { a.Task.ID = id })
		defer l.Close()
		o := r.Run(l, typ)
		require.True(t, o.InCheck && o.NeverStarted)
		r.Breakers().Release(typ.Name, task.Run, id)
		return o
	}
	o := try(1)
	require.Equal(t, task.Undelivered, o.Verdict)
	require.Contains(t, o.Error, "check: could not be sent")
	n, wait := r.Breakers().Room("a", task.Check)
	require.Zero(t, n)
	require.Positive(t, wait)
	n, _ = r.Breakers().Room("a", task.Run)
	require.Equal(t, -1, n)
	require.Equal(t, task.Drained, try(2).Verdict, "turned away")
	require.Empty(t, a.came())

	for n, wait := r.Breakers().Room("a", task.Check); n == 0; n, wait = r.Breakers().Room("a", task.Check) {
		<-time.After(wait)
	}
	typ.Check = &task.Webhook{URL: exectest.Text(a.url + "/check")}
	l := checkLease()
	defer l.Close()
	require.Equal(t, task.Succeeded, r.Run(l, typ).Verdict)
	n, _ = r.Breakers().Room("a", task.Check)
	require.NotContains(t, []int{closedForNow, oneTrial}, n)
}

func TestCheckByCommand(t *testing.T) {
	sh := func(script string) *task.Command {
		c := &task.Command{StopSignal: syscall.SIGTERM, StopGrace: time.Second, Dir: t.TempDir()}
		for _, arg := range []string{"sh", "-c", script} {
			c.Argv = append(c.Argv, task.Argument{Template: exectest.Text(arg), Dash: true})
		}
		return c
	}
	const result = ` > "$LEASEHOLD_RESULT_FILE"`
	for name, c := range map[string]struct {
		script string
		want   task.Outcome // without InCheck; zero: it is run
	}{
		"done":        {`echo '{"done": true, "result": 7}'` + result, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("7")}},
		"not done":    {`echo '{"done": false}'` + result, task.Outcome{}},
		"empty":       {`:` + result, task.Outcome{}},
		"none":        {`true`, task.Outcome{}},
		"failed":      {`echo no; exit 3`, task.Outcome{Verdict: task.Failed, Error: "check: exit code 3: no", Output: "no\n"}},
		"rejected":    {`exit 65`, task.Outcome{Verdict: task.Rejected, Error: "check: exit code 65"}},
		"deferred":    {`exit 75`, task.Outcome{Verdict: task.Deferred, Error: "check: exit code 75"}},
		"environment": {`[ "$LEASEHOLD_PHASE" = check ] && [ -z "$LEASEHOLD_PING_URL" ] && echo 0.4 >&3 && grep -q '"phase":"check"'`, task.Outcome{}},
		"hangs":       {`sleep 60`, task.Outcome{Verdict: task.TimedOut, Error: "check: ran longer than its timeout of 500ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := checkLease(func(a *exectest.Attempt) { a.Policy.Check = 500 * time.Millisecond })
			defer l.Close()
			l.SetPingURL(func() string { return "http://127.0.0.1:7070/ping/x" })
			o := runner(t, io.Discard).Run(l, &task.Type{
				Name: "a", Check: sh(c.script),
				Target: sh(`[ "$LEASEHOLD_PHASE" = run ] && [ -n "$LEASEHOLD_PING_URL" ] && echo '"ran"'` + result),
			})
			if c.want.Verdict == "" {
				require.Equal(t, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`"ran"`)}, o)
				return
			}
			c.want.InCheck, c.want.NeverStarted = true, true
			require.Equal(t, c.want, o)
		})
	}
}
