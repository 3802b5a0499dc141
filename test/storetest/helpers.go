package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Lengths that the checks use. They are minutes, so that the time a check itself takes never decides anything.
const (
	window   = 10 * time.Minute // of a lease
	presence = 5 * time.Minute  // of a session
	reapFor  = 3 * time.Minute  // of a reaping
	later    = 20 * time.Minute // when all of these are over
	slack    = 30 * time.Second // the time that a check may take without anything being wrong
)

// kind is the task type that checks use where one is enough.
const kind = "suite.work"

// rig is a store with one agent's session on it.
type rig struct {
	Harness
	t       testing.TB
	ctx     context.Context
	name    string // of the agent
	session task.Session
	claims  int64 // the number of the last claim
}

// newRig joins a session that claims kind, and gives the check a context that is over in two minutes.
func newRig(t testing.TB, h Harness) *rig {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	r := &rig{Harness: h, t: t, ctx: ctx, name: "first"}
	r.session = r.join(r.name)
	return r
}

// other is a second agent on the same store, by a connection of its own.
func (r *rig) other(name string) *rig {
	o := &rig{Harness: r.Twin(r.t), t: r.t, ctx: r.ctx, name: name}
	o.session = o.join(name)
	return o
}

func agent(name string) store.Agent {
	return store.Agent{
		Name: name, Version: "test", Config: "c0ffee", Workers: 4, Types: []string{kind}, Presence: presence,
	}
}

func (r *rig) join(name string) task.Session {
	r.t.Helper()
	s, err := r.Join(r.ctx, agent(name))
	require.NoError(r.t, err)
	require.Positive(r.t, s)
	return s
}

// insert adds n due rows of kind.
func (r *rig) insert(n int) []task.ID {
	r.t.Helper()
	reqs := make([]store.EnqueueRequest, n)
	for i := range reqs {
		reqs[i] = store.EnqueueRequest{Type: kind}
	}
	ids := r.Insert(r.t, reqs...)
	require.Len(r.t, ids, n)
	return ids
}

// want asks for n rows of a type in the run phase.
func want(typ string, n int) store.Want {
	return store.Want{Type: typ, Phase: task.Run, N: n, Window: window, Policy: 7}
}

// claim claims for the rig's session.
func (r *rig) claim(wants ...store.Want) []task.Task {
	r.t.Helper()
	return r.claimIn("", wants...)
}

// claimIn claims as an agent of that region.
func (r *rig) claimIn(region string, wants ...store.Want) []task.Task {
	r.t.Helper()
	r.claims++
	got, err := r.Claim(r.ctx, store.Claim{Session: r.session, Number: r.claims, Region: region, Wants: wants})
	require.NoError(r.t, err)
	return got
}

// held inserts and claims one row, where no other of kind is due.
func (r *rig) held() task.Task {
	r.t.Helper()
	return r.heldOf(kind)
}

// heldOf is held with a row of another type.
func (r *rig) heldOf(typ string) task.Task {
	r.t.Helper()
	id := r.Insert(r.t, store.EnqueueRequest{Type: typ})
	got := r.claim(want(typ, 1))
	require.Equal(r.t, id, ids(got))
	return got[0]
}

// finish is a settlement that ends the task well.
func finish(t task.Task) store.Settlement {
	return store.Settlement{
		ID: t.ID, Fence: t.Fence, Phase: t.Phase(), Attempt: t.Attempt, RanFence: t.Fence, Started: time.Minute,
		Next:    task.Transition{State: task.StateSucceeded, Attempt: t.Attempt, EverStarted: true},
		Outcome: task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`{"ok":true}`)},
	}
}

// retry is a settlement after which the task is due again when delay is over.
func retry(t task.Task, delay time.Duration) store.Settlement {
	return store.Settlement{
		ID: t.ID, Fence: t.Fence, Phase: t.Phase(), Attempt: t.Attempt, RanFence: t.Fence, Started: time.Minute,
		Next:    task.Transition{State: task.StateRetryPending, Delay: delay, Attempt: t.Attempt, EverStarted: true},
		Outcome: task.Outcome{Verdict: task.Failed, Error: "it broke"},
	}
}

// release is a settlement for a row that was claimed and never started.
func release(t task.Task) store.Settlement {
	return store.Settlement{
		ID: t.ID, Fence: t.Fence, Phase: t.Phase(), Attempt: t.Attempt, RanFence: t.Fence, Started: -1, Silent: true,
		Next:    task.Transition{State: task.StatePending, Attempt: t.Attempt - 1},
		Outcome: task.Outcome{Verdict: task.Drained},
	}
}

// settle settles for the rig's session.
func (r *rig) settle(rows ...store.Settlement) []store.Answer {
	r.t.Helper()
	got, err := r.Settle(r.ctx, r.session, rows)
	require.NoError(r.t, err)
	require.Len(r.t, got, len(rows))
	return got
}

// settled is settle where everything must be applied.
func (r *rig) settled(rows ...store.Settlement) {
	r.t.Helper()
	require.Equal(r.t, same(store.Applied, len(rows)), r.settle(rows...))
}

// get reads a task.
func (r *rig) get(id task.ID) *store.TaskInfo {
	r.t.Helper()
	i, err := r.Get(r.ctx, id)
	require.NoError(r.t, err)
	require.Equal(r.t, id, i.ID)
	return i
}

// state reads a task's state.
func (r *rig) state(id task.ID) task.State {
	r.t.Helper()
	return r.get(id).State
}

// now returns the store's time. It writes a heartbeat of the rig's session.
func (r *rig) now() time.Time {
	r.t.Helper()
	return r.present().Now
}

// present writes a heartbeat of the rig's session.
func (r *rig) present() store.HeartbeatReply {
	r.t.Helper()
	st, err := r.Present(r.ctx, store.Heartbeat{Session: r.session, Agent: agent(r.name)})
	require.NoError(r.t, err)
	return st
}

// view is that of a session that has been there for long, knows the time, and has seen no other session for long.
func (r *rig) view() func() store.View {
	r.t.Helper()
	silent := r.sessions()
	return func() store.View { return store.View{Now: r.Now(), Calm: later, Silent: silent} }
}

// sessions lists the last heartbeats of other sessions that hold rows.
func (r *rig) sessions() []store.Sighting {
	r.t.Helper()
	return r.holders().Others
}

// holders is what the rig's session sees of the sessions that hold rows.
func (r *rig) holders() store.Holders {
	r.t.Helper()
	holders, err := r.Holders(r.ctx, r.session)
	require.NoError(r.t, err)
	return holders
}

// sweep sweeps for the rig's session.
func (r *rig) sweep(limit int) []store.Reaped {
	r.t.Helper()
	expired := r.holders().Expired
	got, err := r.Sweep(r.ctx, r.session, limit, reapFor, r.view())
	require.NoError(r.t, err)
	require.True(r.t, expired || len(got) == 0, "an agent sweeps only where something has expired")
	require.LessOrEqual(r.t, len(got), limit)
	return got
}

func ids(tasks []task.Task) []task.ID {
	out := make([]task.ID, len(tasks))
	for i := range tasks {
		out[i] = tasks[i].ID
	}
	return out
}

// same is n times the same answer.
func same(a store.Answer, n int) []store.Answer {
	out := make([]store.Answer, n)
	for i := range out {
		out[i] = a
	}
	return out
}

// near asserts that two times are the same but for the time that the check itself takes.
func near(t testing.TB, want, got time.Time) {
	t.Helper()
	require.WithinDuration(t, want, got, slack)
}

// sameJSON asserts that two documents are the same, numbers to the last digit. A document may be large, so it is not
// printed whole.
func sameJSON(t testing.TB, want string, got json.RawMessage, format string, args ...any) {
	t.Helper()
	if !reflect.DeepEqual(exact(t, []byte(want)), exact(t, got)) {
		require.Fail(t, "JSON differs: "+fmt.Sprintf(format, args...), "want %.200s\ngot  %.200s", want, got)
	}
}

// exact decodes JSON without rounding its numbers.
func exact(t testing.TB, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return v
}

// plainStates lists the states that any row can come to: only a chunk is split.
func plainStates() []task.State {
	return slices.DeleteFunc(task.States(), func(s task.State) bool { return s == task.StateSplit })
}
