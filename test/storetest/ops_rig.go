package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// oneWayKind is a type that cannot be rolled back. kind can, whatever policy its row is claimed under.
const oneWayKind = "suite.one_way"

// farOff is when rows are due that no claim is to get while a check runs.
const farOff = 1000 * time.Hour

// oneWayPolicy is of tasks that cannot be rolled back. The policy is that of no other type.
func oneWayPolicy() *task.Policy {
	return &task.Policy{Timeout: 50 * time.Minute, Heartbeat: 10 * time.Minute, Stop: 3 * time.Minute}
}

// opsRig is a rig on a store that has operators and batches.
type opsRig struct {
	*liveRig
	h   Harness
	sql OperatorSQL
}

func newOpsRig(t testing.TB, h Harness) *opsRig {
	t.Helper()
	r := &opsRig{newLiveRig(t, h), h, h.OperatorSQL(t)}
	r.declare(oneWayKind, oneWayPolicy())
	return r
}

// declare has the store know the policy of a type.
func (r *opsRig) declare(typ string, p *task.Policy) {
	r.t.Helper()
	a := agent("who declares " + typ)
	a.Policies = map[task.PolicyHash]store.NamedPolicy{p.Hash("a"): {Type: typ, Policy: *p}}
	_, err := r.Join(r.ctx, a)
	require.NoError(r.t, err)
}

// twin is a second agent on the same store, by a connection of its own.
func (r *opsRig) twin() *opsRig {
	r.t.Helper()
	o := r.second()
	return &opsRig{o, o.Harness, o.OperatorSQL(r.t)}
}

// policyOf is what rows of a type are claimed under.
func policyOf(typ string) *task.Policy {
	if typ == oneWayKind {
		return oneWayPolicy()
	}
	return beating()
}

// wantOf asks for n rows of a type and phase.
func wantOf(typ string, phase task.Phase, n int) store.Want {
	p := policyOf(typ)
	return store.Want{Type: typ, Phase: phase, N: n, Window: p.Window(phase), Policy: p.Hash("a")}
}

// claimOne claims the one row that is due of a type and phase.
func (r *opsRig) claimOne(typ string, phase task.Phase) task.Task {
	r.t.Helper()
	got := r.claim(wantOf(typ, phase, 2))
	require.Len(r.t, got, 1)
	return got[0]
}

// ended is a settlement with that verdict after which the task is in that state, everStarted, and due at once if it waits.
func ended(row task.Task, v task.Verdict, s task.State) store.Settlement {
	e := finish(row)
	e.Next.State = s
	e.Outcome = task.Outcome{Verdict: v}
	if v != task.Succeeded {
		e.Outcome.Error = "it broke"
	}
	if s == task.StateRollbackPending && row.State == task.StateRunning {
		e.Next.Attempt = 0
	}
	return e
}

// verdictFor is how an attempt has ended that left its task in that state.
func verdictFor(s task.State) task.Verdict {
	switch s {
	case task.StateSucceeded, task.StateRolledBack:
		return task.Succeeded
	case task.StateCancelled:
		return task.Cancelled
	}
	return task.Failed
}

// rowIn is a row of which no other row of its type is due, in that state; one that waits is not due for long. A row
// that is not everStarted has been claimed, if its state says so, and released or cancelled before anything of it started.
func (r *opsRig) rowIn(q store.EnqueueRequest, s task.State, everStarted bool) task.ID {
	r.t.Helper()
	if s == task.StatePending && !everStarted {
		q.In = farOff
		return r.Insert(r.t, q)[0]
	}
	id := r.Insert(r.t, q)[0]
	row := r.claimOne(q.Type, task.Run)
	require.Equal(r.t, id, row.ID)
	if s == task.StateRunning && everStarted {
		r.settled(retry(row, 0))
		row = r.claimOne(q.Type, task.Run)
	}
	if s == task.StateRunning {
		return id
	}
	through := s
	if s.Phase() == task.Rollback || s == task.StateRolledBack || s == task.StateRollbackFailed {
		through = task.StateRollbackPending
	}
	e := ended(row, verdictFor(through), through)
	e.Next.EverStarted = everStarted
	if s.Waiting() {
		e.Next.Delay = farOff
	}
	r.settled(e)
	if s == through {
		return id
	}
	back := r.claimOne(q.Type, task.Rollback)
	if s != task.StateRollbackRunning {
		r.settled(ended(back, verdictFor(s), s))
	}
	return id
}

// operation is what an operator requests of one task.
type operation func(ctx context.Context, id task.ID, by string) (store.Became, error)

// retries are the ways to retry a task.
func (r *opsRig) retries() map[string]operation {
	return map[string]operation{"Go": r.h.Retry, "SQL": r.sql.Retry}
}

// rollbacks are the ways to have a task rolled back.
func (r *opsRig) rollbacks() map[string]operation {
	return map[string]operation{"Go": r.h.Rollback, "SQL": r.sql.Rollback}
}

// did asserts what a request met.
func (r *opsRig) did(want store.Became, do operation, id task.ID, by string) {
	r.t.Helper()
	got, err := do(r.ctx, id, by)
	require.NoError(r.t, err)
	require.Equal(r.t, want, got)
}

// became is a state as the answer to a request.
func became(s task.State) store.Became { return store.Became(s) }

// refusal asserts that an operator's request was refused, in words that name all of these.
func refusal(t testing.TB, way string, err error, words ...string) {
	t.Helper()
	require.Error(t, err, way)
	if way == "Go" {
		var refused *store.RefusedError
		require.ErrorAs(t, err, &refused)
	}
	says(t, err, words...)
}

// says asserts that an error has all of these words; of a Constant, that it has those between numbers and names.
func says(t testing.TB, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if errors.As(err, new(Constant)) {
			w = slices.MaxFunc(regexp.MustCompile(`-?\d+|"[^"]*"`).Split(w, -1), func(a, b string) int { return len(a) - len(b) })
			if w = strings.TrimSpace(w); !strings.Contains(w, " ") {
				continue // it is a name itself
			}
		}
		require.ErrorContains(t, err, w)
	}
}

// audited asserts that what f does leaves these notes, and no others. Beside who, which the caller says, stands a role that
// may have done it.
func (r *opsRig) audited(f func(), want ...Audited) {
	r.t.Helper()
	before := len(r.h.Audit(r.t))
	f()
	got := r.h.Audit(r.t)
	require.GreaterOrEqual(r.t, len(got), before)
	if len(want) == 0 {
		require.Empty(r.t, got[before:])
		return
	}
	agents, operators := r.h.Roles(r.t)
	reports := got[before:]
	for i := range reports {
		require.Contains(r.t, []string{agents, operators}, reports[i].Role)
		reports[i].Role = ""
	}
	require.Equal(r.t, want, reports)
}

// idle asserts that f changes nothing of a task, and leaves no note.
func (r *opsRig) idle(id task.ID, f func()) {
	r.t.Helper()
	r.audited(func() { r.unchanged(id, f) })
}

// sameOr asserts that two documents are the same, or that neither is there.
func sameOr(t testing.TB, want, got json.RawMessage, what string) {
	t.Helper()
	if want == nil {
		require.Nil(t, got, what)
		return
	}
	require.NotNil(t, got, what)
	sameJSON(t, string(want), got, "%s", what)
}

// number is how people write an id.
func number[N ~int64](id N) string { return strconv.FormatInt(int64(id), 10) }

// await waits for news of that kind.
func (r *opsRig) await(news <-chan store.News, kind store.News) {
	r.t.Helper()
	for {
		select {
		case n := <-news:
			if n&kind != 0 {
				return
			}
		case <-time.After(10 * time.Second):
			require.Fail(r.t, "no agent was notified")
		}
	}
}

// drain discards the news received so far.
func drain(news <-chan store.News) {
	for len(news) > 0 {
		<-news
	}
}

// crashing does f while the store fails at a point, if f comes by it.
func (r *opsRig) crashing(point string, f func() error) (hit bool) {
	r.t.Helper()
	was := r.crash(point)
	err := f()
	r.Fail(nil)
	if !was() {
		require.NoError(r.t, err, point)
		return false
	}
	require.ErrorIs(r.t, err, errCrash, point)
	return true
}
