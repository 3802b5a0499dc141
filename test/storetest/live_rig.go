package storetest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// beating tasks ping; they can be rolled back, by rollbacks that ping at another pace.
func beating() *task.Policy {
	return &task.Policy{
		Timeout: 2 * time.Hour, Heartbeat: 10 * time.Minute, MaxHeartbeat: 30 * time.Minute, Stop: 2 * time.Minute,
		Check: 3 * time.Minute,
		Rollback: &task.RollbackPolicy{
			Timeout: time.Hour, Heartbeat: 20 * time.Minute, MaxHeartbeat: 40 * time.Minute, Stop: 4 * time.Minute,
		},
	}
}

// moving tasks ping, and only what moves them on counts. They cannot be rolled back.
func moving() *task.Policy {
	return &task.Policy{
		Timeout: 2 * time.Hour, Heartbeat: 10 * time.Minute, MaxHeartbeat: 30 * time.Minute, Stop: 2 * time.Minute,
		RequireProgress: true,
	}
}

// quiet tasks need not ping.
func quiet() *task.Policy { return &task.Policy{Timeout: 40 * time.Minute, Stop: 2 * time.Minute} }

// liveRig is a rig whose store knows the policies.
type liveRig struct{ *rig }

func newLiveRig(t testing.TB, h Harness) *liveRig {
	t.Helper()
	r := &liveRig{newRig(t, h)}
	a := agent("who knows the policies")
	a.Policies = map[task.PolicyHash]store.NamedPolicy{}
	for _, p := range []*task.Policy{beating(), moving(), quiet()} {
		a.Policies[p.Hash("a")] = store.NamedPolicy{Type: kind, Policy: *p}
	}
	_, err := r.Join(r.ctx, a)
	require.NoError(t, err)
	return r
}

// second is a second agent on the same store, by a connection of its own.
func (r *liveRig) second() *liveRig {
	r.t.Helper()
	return &liveRig{r.other("second")}
}

// under asks for n rows of kind under a policy.
func under(p *task.Policy, n int) store.Want {
	w := want(kind, n)
	w.Policy, w.Window = p.Hash("a"), p.Window(task.Run)
	return w
}

// heldUnder inserts and claims one row, where no other is due.
func (r *liveRig) heldUnder(p *task.Policy) task.Task {
	r.t.Helper()
	id := r.insert(1)
	got := r.claim(under(p, 1))
	require.Equal(r.t, id, ids(got))
	return got[0]
}

// rollingBack is a row whose rollback is held.
func (r *liveRig) rollingBack(p *task.Policy) task.Task {
	r.t.Helper()
	end := retry(r.heldUnder(p), 0)
	end.Next = task.Transition{State: task.StateRollbackPending, EverStarted: true}
	r.settled(end)
	w := under(p, 1)
	w.Phase, w.Window = task.Rollback, p.Window(task.Rollback)
	got := r.claim(w)
	require.Len(r.t, got, 1)
	return got[0]
}

// keepsRows reports whether the store has locks on rows: whether others can do anything while an application's
// transaction is open.
func (r *liveRig) keepsRows() bool {
	r.t.Helper()
	release := r.LockRow(r.t, r.insertFar())
	if release != nil {
		release()
	}
	return release != nil
}

// insertFar adds a row that is not due while the check lasts.
func (r *liveRig) insertFar() task.ID {
	r.t.Helper()
	return r.Insert(r.t, store.EnqueueRequest{Type: "far", In: 1000 * time.Hour})[0]
}

// ping sends one ping for a row.
func (r *liveRig) ping(row task.Task, p store.Ping) store.PingReply {
	r.t.Helper()
	return r.pings(store.RemotePing{ID: row.ID, Fence: row.Fence, Ping: p})[0]
}

func (r *liveRig) pings(rows ...store.RemotePing) []store.PingReply {
	r.t.Helper()
	got, err := r.TakePings(r.ctx, rows)
	require.NoError(r.t, err)
	require.Len(r.t, got, len(rows))
	return got
}

// counted is ping where it must count.
func (r *liveRig) counted(row task.Task, p store.Ping) store.PingReply {
	r.t.Helper()
	reply := r.ping(row, p)
	require.Equal(r.t, store.Applied, reply.Answer)
	require.True(r.t, reply.Counted, reply.Reason)
	return reply
}

// held0 is the one row that the rig's session holds.
func (r *liveRig) held0() store.Held {
	r.t.Helper()
	list := r.present().Held
	require.Len(r.t, list, 1)
	return list[0]
}

// leaseEnd reads when a row's window ends.
func (r *liveRig) leaseEnd(id task.ID) time.Time {
	r.t.Helper()
	end := r.get(id).LeaseEnd
	require.NotNil(r.t, end)
	return *end
}

// attemptLeft is how long a running attempt may still take.
func (r *liveRig) attemptLeft(p *task.Policy, id task.ID) time.Duration {
	r.t.Helper()
	claimed := r.get(id).ClaimedAt
	require.NotNil(r.t, claimed)
	return claimed.Add(p.AttemptLength(task.Run)).Sub(r.now())
}

// renewOne renews one row by the rig's session.
func (r *liveRig) renewOne(w store.Renewal) store.Answer {
	r.t.Helper()
	got, err := r.Renew(r.ctx, r.session, []store.Renewal{w})
	require.NoError(r.t, err)
	require.Len(r.t, got, 1)
	return got[0]
}

// detach takes the row off the rig's session.
func (r *liveRig) detach(row task.Task) {
	r.t.Helper()
	got := r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Detach: true})
	require.Equal(r.t, store.Applied, got)
}

// complete completes an attempt by Go.
func (r *liveRig) complete(id task.ID, f task.Fence, result string) store.Answer {
	r.t.Helper()
	got, err := r.Complete(r.ctx, id, f, raw(result))
	require.NoError(r.t, err)
	return got
}

// cancel cancels a task by Go.
func (r *liveRig) cancel(id task.ID, by string) store.Became {
	r.t.Helper()
	got, err := r.Cancel(r.ctx, id, by)
	require.NoError(r.t, err)
	return got
}

// adopt adopts an attempt.
func (r *liveRig) adopt(id task.ID, f task.Fence) (*store.Reaped, store.Answer) {
	r.t.Helper()
	reaped, answer, err := r.Adopt(r.ctx, r.session, id, f, reapFor)
	require.NoError(r.t, err)
	require.Equal(r.t, answer == store.Applied, reaped != nil)
	return reaped, answer
}

// bySQL runs f in an application's transaction, which is committed where f succeeds.
func (r *liveRig) bySQL(f func(ctx context.Context, a Application) error) error {
	r.t.Helper()
	a := r.Begin(r.t)
	if err := f(r.ctx, a); err != nil {
		require.NoError(r.t, a.Rollback(r.ctx))
		return err
	}
	return a.Commit(r.ctx)
}

func (r *liveRig) holdSQL(id task.ID, f task.Fence) error {
	r.t.Helper()
	return r.bySQL(func(ctx context.Context, a Application) error { return a.Hold(ctx, id, f) })
}

func (r *liveRig) completeSQL(id task.ID, f task.Fence, result string) error {
	r.t.Helper()
	return r.bySQL(func(ctx context.Context, a Application) error { return a.Complete(ctx, id, f, raw(result)) })
}

func (r *liveRig) pingSQL(id task.ID, f task.Fence, p store.Ping) (reply *store.PingReply, err error) {
	r.t.Helper()
	err = r.bySQL(func(ctx context.Context, a Application) error {
		reply, err = a.Ping(ctx, id, f, p)
		return err
	})
	return reply, err
}

func (r *liveRig) cancelSQL(id task.ID, by string) (c store.Became, err error) {
	r.t.Helper()
	err = r.bySQL(func(ctx context.Context, a Application) error {
		c, err = a.Cancel(ctx, id, by)
		return err
	})
	return c, err
}

// raw is JSON; nil for none.
func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// reports compares what a task has said of itself with what is to be seen of it; "" is nothing.
func (r *liveRig) reports(id task.ID, progress, message, checkpoint string) {
	r.t.Helper()
	info := r.get(id)
	sameOrNone(r.t, progress, info.Progress)
	require.Equal(r.t, message, info.Message)
	sameOrNone(r.t, checkpoint, info.Checkpoint)
}

func sameOrNone(t testing.TB, want string, got json.RawMessage) {
	t.Helper()
	if want == "" {
		require.Nil(t, got)
		return
	}
	require.NotNil(t, got, "want %s", want)
	sameJSON(t, want, got, "notes")
}

// gone asserts that err is the refusal of an attempt whose lease was lost.
func gone(t testing.TB, err error) {
	t.Helper()
	require.ErrorContains(t, err, "any more: stop, and commit nothing")
}

// asJSON is a text as a JSON string.
func asJSON(t testing.TB, text string) json.RawMessage {
	t.Helper()
	out, err := json.Marshal(text)
	require.NoError(t, err)
	return out
}
