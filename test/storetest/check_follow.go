package storetest

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func followChecks() []Check {
	return []Check{
		{"a follower becomes a task however the live row ends", followEnds},
		{"not before it has ended for good", followWaits},
		{"nor while something of it may be at work", followAfterLease},
		{"a settlement that is repeated inserts one", followRepeated},
		{"each failpoint loses none and doubles none", followFailpoints},
		{"rows with keys and rows without end together", followMany},
		{"the values come along", followValues},
		{"a follower is cancelled", followCancelled},
		{"a follower is neither retried nor rolled back", followOperated},
		{"it belongs to no batch", followBatch},
		{"what is revived is refused the key of a follower", followRevived},
		{"a task takes its key to a follower of its own", followChain},
		{"many producers beside agents lose nothing", followConcurrent},
	}
}

// followedRow is a live row of kind in a state, and its follower.
func (r *opsRig) followedRow(q store.EnqueueRequest, s task.State) (id, follower task.ID) {
	r.t.Helper()
	id = r.rowIn(q, s, true)
	q.Batch, q.OnLive = 0, store.OnLiveAgain
	return id, r.does(store.EnqueuedFollows, r.enqueueings()["Go"], q)
}

// promoted asserts that a follower is a task now, which can be claimed once.
func (r *opsRig) promoted(follower task.ID, how string) {
	r.t.Helper()
	got := r.get(follower)
	require.Equal(r.t, task.StatePending, got.State, how)
	require.Zero(r.t, got.Follows, how)
	require.False(r.t, got.EverStarted, how)
	rows := r.claim(wantOf(kind, task.Run, 5))
	require.Equal(r.t, []task.ID{follower}, ids(rows), how)
	require.Equal(r.t, 1, rows[0].Attempt, how)
	r.settled(finish(rows[0]))
	require.Equal(r.t, task.StateSucceeded, r.state(follower), how)
	require.Empty(r.t, r.claim(wantOf(kind, task.Run, 5)), how)
}

// holding is the row as its holder has it, of which the state is running or rollback_running.
func (r *opsRig) holding(id task.ID) task.Task {
	r.t.Helper()
	held, err := r.Claimed(r.ctx, r.session, r.claims)
	require.NoError(r.t, err)
	for _, row := range held {
		if row.ID == id {
			return row
		}
	}
	require.Fail(r.t, "the row is not held", "%d", id)
	return task.Task{}
}

// ending is a way in which a row ends for good.
type ending struct {
	how  string
	from task.State
	end  func(id task.ID)
	to   task.State
}

// endings are the ways in which a row ends that was started.
func (r *opsRig) endings() []ending {
	return []ending{
		{"success at the second try", task.StateRunning, func(id task.ID) { r.settled(finish(r.holding(id))) }, task.StateSucceeded},
		{"failure", task.StateRunning, func(id task.ID) {
			r.settled(ended(r.holding(id), task.Failed, task.StateFailed))
		}, task.StateFailed},
		{"cancelled while it ran", task.StateRunning, func(id task.ID) {
			e := ended(r.holding(id), task.Cancelled, task.StateCancelled)
			e.CancelKnown = true
			r.settled(e)
		}, task.StateCancelled},
		{"completed by Go", task.StateRunning, func(id task.ID) {
			require.Equal(r.t, store.Applied, r.complete(id, r.holding(id).Fence, `{}`))
		}, task.StateSucceeded},
		{"completed by SQL", task.StateRunning, func(id task.ID) {
			require.NoError(r.t, r.completeSQL(id, r.holding(id).Fence, `{}`))
		}, task.StateSucceeded},
		{"cancelled by Go", task.StatePending, func(id task.ID) {
			_, err := r.h.Rollback(r.ctx, id, "") // to be rolled back: it has been started
			require.NoError(r.t, err)
			r.settled(ended(r.claimOne(kind, task.Rollback), task.Succeeded, task.StateRolledBack))
		}, task.StateRolledBack},
		{"rolled back", task.StateRollbackRunning, func(id task.ID) {
			r.settled(ended(r.holding(id), task.Succeeded, task.StateRolledBack))
		}, task.StateRolledBack},
		{"rollback completed by SQL", task.StateRollbackRunning, func(id task.ID) {
			require.NoError(r.t, r.completeSQL(id, r.holding(id).Fence, `{}`))
		}, task.StateRolledBack},
		{"rollback failed", task.StateRollbackRunning, func(id task.ID) {
			r.settled(ended(r.holding(id), task.Failed, task.StateRollbackFailed))
		}, task.StateRollbackFailed},
	}
}

func followEnds(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for n, c := range r.endings() {
		id, follower := r.followedRow(store.EnqueueRequest{Type: kind, Key: strconv.Itoa(n)}, c.from)
		c.end(id)
		require.Equal(t, c.to, r.state(id), c.how)
		r.promoted(follower, c.how)
	}
	for way, cancel := range map[string]operation{"Go": r.h.Cancel, "SQL": r.sql.Cancel} {
		id := r.rowIn(store.EnqueueRequest{Type: kind, Key: way}, task.StatePending, false)
		follower := r.does(store.EnqueuedFollows, r.enqueueings()["SQL"], numbered(way, store.OnLiveAgain, "2"))
		r.did(became(task.StateCancelled), cancel, id, "")
		require.Equal(t, task.StateCancelled, r.state(id))
		r.promoted(follower, "cancelled by "+way)
	}
	first := r.rowIn(store.EnqueueRequest{Type: kind, Key: "first"}, task.StateRunning, false)
	follower := r.does(store.EnqueuedFollows, r.enqueueings()["SQL"], numbered("first", store.OnLiveAgain, "2"))
	r.settled(finish(r.holding(first)))
	r.promoted(follower, "success at the first try")
	r.sweptAway()
}

// sweptAway ends a row whose agent is gone.
func (r *opsRig) sweptAway() {
	r.t.Helper()
	gone := r.twin()
	row := gone.held()
	require.NoError(r.t, gone.Leave(r.ctx, gone.session))
	id := r.Insert(r.t, store.EnqueueRequest{Type: kind, Key: "swept"})[0]
	o := r.twin()
	require.Equal(r.t, []task.ID{id}, ids(o.claim(wantOf(kind, task.Run, 1))))
	follower := r.does(store.EnqueuedFollows, r.enqueueings()["Go"], numbered("swept", store.OnLiveAgain, "2"))
	require.NoError(r.t, o.Leave(r.ctx, o.session))
	for _, dead := range r.sweep(10) {
		r.settled(ended(dead.Task, task.Lost, task.StateFailed))
	}
	require.Equal(r.t, task.StateFailed, r.state(id))
	require.Equal(r.t, task.StateFailed, r.state(row.ID))
	r.promoted(follower, "swept")
}

func followWaits(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, follower := r.followedRow(store.EnqueueRequest{Type: kind, Key: "k"}, task.StateRunning)
	waits := func(s task.State) {
		t.Helper()
		require.Equal(t, s, r.state(id))
		require.Equal(t, id, r.get(follower).Follows, s)
		require.Empty(t, r.claim(wantOf(kind, task.Run, 5)), s)
	}
	e := retry(r.holding(id), farOff)
	r.settled(e)
	waits(task.StateRetryPending)
	r.did(became(task.StateRollbackPending), r.h.Cancel, id, "")
	waits(task.StateRollbackPending)
	row := r.claimOne(kind, task.Rollback)
	waits(task.StateRollbackRunning)
	r.settled(ended(row, task.Failed, task.StateRollbackPending))
	waits(task.StateRollbackPending)
	r.settled(ended(r.claimOne(kind, task.Rollback), task.Succeeded, task.StateRolledBack))
	r.promoted(follower, "rolled back")
}

func followAfterLease(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, follower := r.followedRow(store.EnqueueRequest{Type: kind, Key: "k"}, task.StateRunning)
	e := ended(r.holding(id), task.TimedOut, task.StateFailed)
	e.Next.AfterLease = true
	until := r.leaseEnd(id)
	r.settled(e)
	require.Zero(t, r.get(follower).Follows)
	require.WithinDuration(t, until, r.get(follower).RunAt, time.Second)
	require.Empty(t, r.claim(wantOf(kind, task.Run, 5)))
	r.Advance(t, until.Sub(r.now())+time.Minute)
	r.promoted(follower, "its lease is over")

	id, follower = r.followedRow(store.EnqueueRequest{Type: kind, Key: "l", In: 0}, task.StateRunning)
	q := numbered("l", store.OnLiveReplace, "3")
	q.In = 10 * time.Hour
	require.Equal(t, follower, r.does(store.EnqueuedFollows, r.enqueueings()["Go"], q))
	r.settled(finish(r.holding(id)))
	near(t, r.now().Add(10*time.Hour), r.get(follower).RunAt)
}

func followRepeated(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, follower := r.followedRow(store.EnqueueRequest{Type: kind, Key: "k"}, task.StateRunning)
	e := finish(r.holding(id))
	r.settled(e)
	require.Equal(t, []store.Answer{store.Ended}, r.settle(e))
	next := r.claim(wantOf(kind, task.Run, 5))
	require.Equal(t, []task.ID{follower}, ids(next))
	second := r.does(store.EnqueuedFollows, r.enqueueings()["Go"], numbered("k", store.OnLiveAgain, "3"))
	require.Equal(t, []store.Answer{store.Ended, store.Ended}, r.settle(e, e), "the follower's follower stays")
	require.Equal(t, follower, r.get(second).Follows)
	r.settled(finish(next[0]))
	r.promoted(second, "once")
}

func followFailpoints(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, point := range r.Failpoints() {
		id, follower := r.followedRow(store.EnqueueRequest{Type: kind, Key: "k"}, task.StateRunning)
		e := finish(r.holding(id))
		require.True(t, r.crashing(point, func() error {
			_, err := r.Settle(r.ctx, r.session, []store.Settlement{e})
			return err
		}), point)
		if r.state(id) == task.StateRunning {
			require.Equal(t, id, r.get(follower).Follows, point)
		} else {
			require.Zero(t, r.get(follower).Follows, point)
		}
		require.Len(t, r.list(store.TaskFilter{Key: "k", States: []task.State{task.StateRunning, task.StatePending}}),
			map[bool]int{true: 2, false: 1}[r.state(id) == task.StateRunning], point)
		r.settle(e)
		r.promoted(follower, point)
	}
}

func followMany(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	_, _ = r.batchOf(3, store.BatchRequest{Open: true})
	r.insert(5)
	var keyed []store.EnqueueRequest
	for i := range 6 {
		keyed = append(keyed, store.EnqueueRequest{Type: kind, Key: strconv.Itoa(i)})
	}
	r.Insert(t, keyed...)
	rows := r.claim(wantOf(kind, task.Run, 20))
	require.Len(t, rows, 14)
	followers := map[task.ID]bool{}
	for i := range 3 {
		followers[r.does(store.EnqueuedFollows, r.enqueueings()["SQL"], numbered(strconv.Itoa(i*2), store.OnLiveAgain, "2"))] = true
	}
	var ends []store.Settlement
	for i, row := range rows {
		e := finish(row)
		if i%4 == 3 {
			e = ended(row, task.Failed, task.StateFailed)
		}
		ends = append(ends, e)
	}
	r.settled(ends...)
	got := r.claim(wantOf(kind, task.Run, 20))
	require.Len(t, got, 3)
	for _, row := range got {
		require.True(t, followers[row.ID])
	}
}

func followValues(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id := r.rowIn(store.EnqueueRequest{Type: kind, Key: "k"}, task.StateRunning, false)
	q := full(r.now())
	q.Key, q.OnLive, q.RollbackPayload, q.RunAt = "k", store.OnLiveAgain, raw(`{"was":7}`), r.now().Add(-time.Hour)
	follower := r.does(store.EnqueuedFollows, r.enqueueings()["SQL"], q)
	before := r.get(follower)
	r.settled(finish(r.holding(id)))
	after := r.get(follower)
	before.Follows, before.Fence = 0, after.Fence
	require.Equal(t, before, after)
	require.Equal(t, "k", after.Key)
	require.Equal(t, 4, after.MaxAttempts)
	require.WithinDuration(t, q.RunAt, after.RunAt, time.Millisecond)
	rows := r.claimIn("sg", wantOf(kind, task.Run, 5))
	require.Equal(t, []task.ID{follower}, ids(rows))
	require.JSONEq(t, `{"invoice":7}`, string(rows[0].Payload))
	require.JSONEq(t, `{"was":7}`, string(rows[0].RollbackPayload))
}
