package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func afterChecks() []Check {
	return []Check{
		{"a row waits until the other has ended", afterOne},
		{"one that did not succeed cancels it", afterFailed},
		{"or does not", afterAny},
		{"every end counts", afterEnds},
		{"all of them have to end", afterAll},
		{"what has ended before counts as it did", afterArchived},
		{"what cannot be waited for is refused", afterRefused},
		{"a chain, a fan-out and a fan-in", afterGraph},
		{"in small steps", afterSteps},
		{"a follower is waited for", afterFollower},
		{"one that is retried meanwhile counts as it ends", afterRetried},
		{"one that is rolled back meanwhile counts as it ends", afterRolledBack},
		{"what may be at work is waited for", afterUnknown},
		{"a row that waits can be cancelled", afterCancelled},
		{"a revived row waits anew if it never started", afterRevived},
		{"what waits is not due", afterNotDue},
		{"a row whose values are replaced goes on waiting", afterReplaced},
		{"a row with a lock is a candidate once it is free", afterLock},
		{"rows of batches", afterBatch},
		{"rows of a batch that stops", afterBatchStops},
		{"what rows that wait name outlasts its retention", afterRetention},
		{"a lost step is repeated", afterCrash},
		{"what an application keeps is left for later", afterKept},
		{"so many and no more", afterMost},
		{"it is seen", afterSeen},
		{"a run gets to know what it has waited for", afterKnown},
		{"but not more than so much", afterKnownBounded},
	}
}

// afterRig is a rig for rows that wait for others.
type afterRig struct{ *opsRig }

func newAfterRig(t testing.TB, h Harness) *afterRig { return &afterRig{newOpsRig(t, h)} }

// after inserts a row of kind that waits for others.
func (r *afterRig) after(ids ...task.ID) task.ID {
	r.t.Helper()
	return r.Insert(r.t, store.EnqueueRequest{Type: kind, After: ids})[0]
}

// unblocked asserts how many rows are freed and cancelled, in all.
func (r *afterRig) unblocked(freed, cancelled int) {
	r.t.Helper()
	r.stepped(1000, freed, cancelled)
}

func (r *afterRig) stepped(most, freed, cancelled int) {
	r.t.Helper()
	u := unblockAll(r.ctx, r.t, r, most)
	require.Equal(r.t, []int{freed, cancelled}, []int{u.Freed, u.Cancelled}, "rows that were freed, and cancelled")
	require.Zero(r.t, unblockAll(r.ctx, r.t, r, most).Worked, "a repeat does nothing")
}

// waiting asserts which of some rows wait for others.
func (r *afterRig) waiting(want []task.ID, of ...task.ID) {
	r.t.Helper()
	var got []task.ID
	for _, id := range of {
		if r.get(id).Held == task.HoldAfter {
			got = append(got, id)
		}
	}
	require.Equal(r.t, want, got, "which rows wait for others")
}

// run claims up to n rows.
func (r *afterRig) run(n int) []task.Task {
	r.t.Helper()
	return r.claim(want(kind, n))
}

// fails ends a row that runs as failed for good.
func fails(row task.Task) store.Settlement { return ended(row, task.Failed, task.StateFailed) }

func afterOne(t testing.TB, h Harness) {
	for _, early := range []bool{false, true} { // whether agents have seen the row before the other ends
		r := newAfterRig(t, h)
		for way, add := range r.ways() {
			first := r.insert(1)[0]
			second := add(store.EnqueueRequest{Type: kind, After: []task.ID{first}})
			free := r.insert(1)[0]
			if early {
				r.unblocked(0, 0)
			}
			r.waiting([]task.ID{second}, first, second, free)
			got := r.run(5)
			require.Equal(t, []task.ID{first, free}, ids(got), way)
			r.unblocked(0, 0)
			r.settled(finish(got[1]))
			r.unblocked(0, 0)
			r.settled(finish(got[0]))
			require.Empty(t, r.run(5), "not before a step")
			r.unblocked(1, 0)
			r.waiting(nil, second)
			require.WithinDuration(t, r.now(), r.get(second).RunAt, slack, "it is due from then on")
			got = r.run(5)
			require.Equal(t, []task.ID{second}, ids(got))
			r.settled(finish(got[0]))
			r.unblocked(0, 0)
		}
	}
}

func afterFailed(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(1)[0]
	second := r.after(first)
	third := r.after(second)
	either := r.Insert(t, store.EnqueueRequest{Type: kind, After: []task.ID{second}, AfterIf: store.AfterIfAny})[0]
	r.unblocked(0, 0)
	r.settled(fails(r.run(5)[0]))
	r.unblocked(1, 2)
	for id, of := range map[task.ID]string{second: store.WhyCancelled(first, task.StateFailed), third: store.WhyCancelled(second, task.StateCancelled)} {
		got := r.get(id)
		require.Equal(t, task.StateCancelled, got.State)
		require.Equal(t, of, got.Error)
		require.Equal(t, task.Cancelled, got.Outcome)
		require.Empty(t, got.CancelRequestedBy)
	}
	require.Equal(t, []task.ID{either}, ids(r.run(5)))
}

func afterAny(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(2)
	for _, early := range []bool{true, false} {
		id := r.Insert(t, store.EnqueueRequest{Type: kind, After: first[:1], AfterIf: store.AfterIfAny})[0]
		if early {
			r.settled(fails(r.run(1)[0]))
		}
		r.unblocked(1, 0)
		require.Equal(t, task.StatePending, r.state(id))
	}
}

// afterEnds ends a row in each way, with one that wants success and one that does not.
func afterEnds(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	for _, c := range r.endings() {
		id := r.rowIn(store.EnqueueRequest{Type: kind}, c.from, true)
		want := r.after(id)
		either := r.Insert(t, store.EnqueueRequest{Type: kind, After: []task.ID{id}, AfterIf: store.AfterIfAny})[0]
		r.unblocked(0, 0)
		c.end(id)
		require.Equal(t, c.to, r.state(id), c.how)
		if c.to == task.StateSucceeded {
			r.unblocked(2, 0)
			require.Equal(t, task.StatePending, r.state(want), c.how)
		} else {
			r.unblocked(1, 1)
			require.Equal(t, store.WhyCancelled(id, c.to), r.get(want).Error)
		}
		require.Equal(t, task.StatePending, r.state(either), c.how)
		for _, left := range r.run(5) {
			r.settled(finish(left))
		}
	}
	for way, cancel := range map[string]operation{"Go": r.h.Cancel, "SQL": r.sql.Cancel} {
		id := r.insert(1)[0]
		waits := r.after(id)
		r.unblocked(0, 0)
		r.did(became(task.StateCancelled), cancel, id, "")
		r.unblocked(0, 1)
		require.Equal(t, store.WhyCancelled(id, task.StateCancelled), r.get(waits).Error, way)
	}
}

func afterAll(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(4)
	id := r.after(first[0], first[1], first[1], first[2], first[0])
	r.unblocked(0, 0)
	rows := r.run(5)
	for _, row := range rows[:3] {
		r.waiting([]task.ID{id}, id)
		r.settled(finish(row))
		r.unblocked(map[task.ID]int{first[2]: 1}[row.ID], 0)
	}
	r.waiting(nil, id)
	// Those that have ended before are counted, too, and the first that did not succeed is named.
	r.settled(fails(rows[3]))
	last := r.insert(1)
	got := r.run(5)
	id = r.after(first[0], first[3], last[0])
	r.unblocked(0, 0)
	r.waiting([]task.ID{id}, id)
	r.settled(finish(got[1]))
	r.unblocked(0, 1)
	require.Equal(t, store.WhyCancelled(first[3], task.StateFailed), r.get(id).Error)
}

func afterArchived(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(2)
	rows := r.run(2)
	r.settled(finish(rows[0]), fails(rows[1]))
	good, bad := r.after(first[0]), r.after(first...)
	r.waiting([]task.ID{good, bad}, good, bad)
	r.unblocked(1, 1)
	require.Equal(t, task.StateCancelled, r.state(bad))
	require.Equal(t, []task.ID{good}, ids(r.run(5)))
}

func afterRefused(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(1)[0]
	before := r.stats().Waiting
	for what, q := range map[string]store.EnqueueRequest{
		"unknown":          {After: []task.ID{first, first + 1000}},
		"itself":           {After: []task.ID{first + 1}},
		"another after_if": {After: []task.ID{first}, AfterIf: "failed"},
		"a follower":       {After: []task.ID{first}, Key: "k", OnLive: store.OnLiveAgain},
		"a replacement":    {After: []task.ID{first}, Key: "k", OnLive: store.OnLiveReplace},
		"a debounced row":  {After: []task.ID{first}, Key: "k", Debounce: time.Minute},
		"negative":         {After: []task.ID{-first}},
	} {
		q.Type = kind
		_, _, err := r.Enqueue(r.ctx, q)
		var input *store.InputError
		require.ErrorAs(t, err, &input, what)
	}
	require.Equal(t, before, r.stats().Waiting, "nothing was inserted")
	// An empty list is none.
	r.waiting(nil, r.after())
}

func afterGraph(t testing.TB, h Harness) {
	for _, early := range []bool{true, false} {
		r := newAfterRig(t, h)
		look := func() {
			if early {
				r.unblocked(0, 0)
			}
		}
		start := r.insert(1)[0]
		var middle []task.ID
		for range 20 {
			middle = append(middle, r.after(start))
			look()
		}
		end := r.after(middle...)
		last := r.after(end, start)
		look()
		order := [][]task.ID{{start}, middle, {end}, {last}}
		for n, want := range order {
			got := r.run(50)
			require.ElementsMatch(t, want, ids(got))
			for i, row := range got {
				r.settled(finish(row))
				if i == len(got)-1 && n+1 < len(order) {
					r.unblocked(len(order[n+1]), 0)
				} else {
					r.unblocked(0, 0)
				}
			}
		}
	}
}

// afterSteps makes steps that are smaller than what there is to do.
func afterSteps(t testing.TB, h Harness) {
	for _, most := range []int{1, 2, 7} {
		r := newAfterRig(t, h)
		first := r.insert(10)
		var all []task.ID
		for range 10 {
			all = append(all, r.after(first...))
		}
		r.stepped(most, 0, 0)
		r.waiting(all, all...)
		rows := r.run(10)
		for _, row := range rows[:9] {
			r.settled(finish(row))
		}
		r.stepped(most, 0, 0)
		r.settled(finish(rows[9]))
		r.stepped(most, 10, 0)
		got := r.run(20)
		require.ElementsMatch(t, all, ids(got))
		for _, row := range got {
			r.settled(finish(row))
		}
	}
}

func afterFollower(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	for _, early := range []bool{true, false} {
		first := r.Insert(t, store.EnqueueRequest{Type: kind, Key: "k"})[0]
		row := r.run(5)[0]
		follower, _, err := r.Enqueue(r.ctx, store.EnqueueRequest{Type: kind, Key: "k", OnLive: store.OnLiveAgain})
		require.NoError(t, err)
		id := r.after(follower)
		if early {
			r.unblocked(0, 0)
		}
		r.settled(finish(row))
		require.Equal(t, first, row.ID)
		r.unblocked(0, 0)
		r.waiting([]task.ID{id}, id)
		got := r.run(5)
		require.Equal(t, []task.ID{follower}, ids(got))
		cancelled, _, err := r.Enqueue(r.ctx, store.EnqueueRequest{Type: kind, Key: "k", OnLive: store.OnLiveAgain})
		require.NoError(t, err)
		other := r.after(cancelled)
		if early {
			r.unblocked(0, 0)
		}
		r.did(became(task.StateCancelled), r.h.Cancel, cancelled, "")
		r.settled(finish(got[0]))
		r.unblocked(1, 1)
		require.Equal(t, store.WhyCancelled(cancelled, task.StateCancelled), r.get(other).Error)
		got = r.run(5)
		require.Equal(t, []task.ID{id}, ids(got))
		r.settled(finish(got[0]))
	}
}

func afterRetried(t testing.TB, h Harness) {
	for _, seen := range []bool{true, false} { // whether agents have seen that it had failed
		r := newAfterRig(t, h)
		first := r.insert(2)
		id := r.after(first...)
		r.unblocked(0, 0)
		rows := r.run(5)
		r.settled(fails(rows[0]))
		if seen {
			r.unblocked(0, 0)
		}
		r.did(became(task.StatePending), r.h.Retry, first[0], "")
		r.settled(finish(rows[1]))
		r.unblocked(0, 0)
		r.waiting([]task.ID{id}, id)
		r.settled(finish(r.run(5)[0]))
		r.unblocked(1, 0)
		require.Equal(t, []task.ID{id}, ids(r.run(5)))
	}
}

func afterRolledBack(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	good := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateSucceeded, true)
	other := r.insert(1)
	id := r.after(good, other[0])
	r.unblocked(0, 0)
	r.did(became(task.StateRollbackPending), r.h.Rollback, good, "")
	r.settled(finish(r.run(5)[0]))
	r.unblocked(0, 0)
	r.waiting([]task.ID{id}, id)
	r.settled(ended(r.claimOne(kind, task.Rollback), task.Succeeded, task.StateRolledBack))
	r.unblocked(0, 1)
	require.Equal(t, store.WhyCancelled(good, task.StateRolledBack), r.get(id).Error)
}

// afterUnknown has rows end of which something may be at work until their leases end.
func afterUnknown(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(1)[0]
	id := r.Insert(t, store.EnqueueRequest{Type: kind, After: []task.ID{first}, AfterIf: store.AfterIfAny})[0]
	r.unblocked(0, 0)
	row := r.run(5)[0]
	end := fails(row)
	end.Next.AfterLease = true
	r.settled(end)
	r.unblocked(1, 0)
	require.Empty(t, r.run(5), "something of the other may be at work")
	require.WithinDuration(t, row.LeaseEnd, r.get(id).RunAt, slack)
	r.Advance(t, window+time.Minute)
	r.present()
	require.Equal(t, []task.ID{id}, ids(r.run(5)))
}

func afterCancelled(t testing.TB, h Harness) {
	for way, seen := range map[string]bool{"Go": true, "SQL": false} {
		r := newAfterRig(t, h)
		first := r.insert(1)[0]
		id := r.after(first)
		next := r.after(id)
		if seen {
			r.unblocked(0, 0)
		}
		cancel := r.h.Cancel
		if way == "SQL" {
			cancel = r.sql.Cancel
		}
		r.did(became(task.StateCancelled), cancel, id, "alice")
		require.Equal(t, "cancelled before it started, by alice", r.get(id).Error)
		r.unblocked(0, 1)
		require.Equal(t, task.StateCancelled, r.state(next))
		r.settled(finish(r.run(5)[0]))
		r.unblocked(0, 0)
		require.Equal(t, task.StateCancelled, r.state(id))
	}
}

func afterRevived(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(1)[0]
	id := r.after(first)
	r.unblocked(0, 0)
	r.did(became(task.StateCancelled), r.h.Cancel, id, "")
	r.did(became(task.StatePending), r.h.Retry, id, "")
	r.waiting([]task.ID{id}, id)
	r.unblocked(0, 0)
	r.settled(finish(r.run(5)[0]))
	r.unblocked(1, 0)
	r.settled(fails(r.run(5)[0]))
	r.did(became(task.StatePending), r.sql.Retry, id, "")
	r.waiting(nil, id)
	require.Equal(t, []task.ID{id}, ids(r.run(5)), "it has started before, and waits for no other")
	// One that is still counted as waiting.
	first = r.insert(1)[0]
	id = r.after(first)
	r.did(became(task.StateCancelled), r.h.Cancel, id, "")
	r.settled(fails(r.run(5)[0]))
	r.did(became(task.StatePending), r.h.Retry, id, "")
	r.unblocked(0, 1)
}

func afterNotDue(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(1)
	id := r.Insert(t, store.EnqueueRequest{Type: kind, After: first, RunAt: r.now().Add(-time.Hour)})[0]
	r.unblocked(0, 0)
	rows := r.run(5)
	_, ok, err := r.NextDue(r.ctx, store.Claim{Session: r.session, Wants: []store.Want{want(kind, 5)}})
	require.NoError(t, err)
	require.False(t, ok, "a row that waits is not due")
	s := r.stats()
	require.Zero(t, s.OldestDue[kind])
	require.Contains(t, s.Waiting, store.TypeCount{Type: kind, State: task.StatePending, N: 1}, "it is counted")
	later := r.Insert(t, store.EnqueueRequest{Type: kind, After: first, In: time.Hour})[0]
	r.settled(finish(rows[0]))
	r.unblocked(2, 0)
	require.Equal(t, []task.ID{id}, ids(r.run(5)))
	require.WithinDuration(t, r.now().Add(time.Hour), r.get(later).RunAt, slack, "what is due later stays so")
}

func afterReplaced(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	for way, add := range r.enqueueings() {
		first := r.insert(1)[0]
		id := r.Insert(t, store.EnqueueRequest{Type: kind, Key: way, After: []task.ID{first}})[0]
		require.Equal(t, id, r.does(store.EnqueuedReplaced, add, numbered(way, store.OnLiveReplace, "2")))
		r.waiting([]task.ID{id}, id)
		got := r.run(5)
		require.Equal(t, []task.ID{first}, ids(got))
		r.settled(finish(got[0]))
		r.unblocked(1, 0)
		got = r.run(5)
		require.Equal(t, []task.ID{id}, ids(got))
		r.settled(finish(got[0]))
	}
}

func afterLock(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	holder := r.Insert(t, store.EnqueueRequest{Type: kind, Lock: "x"})[0]
	id := r.Insert(t, store.EnqueueRequest{Type: kind, Lock: "x", After: r.insert(1)})[0]
	rows := r.run(5)
	require.Len(t, rows, 2)
	r.settled(finish(rows[1]))
	r.unblocked(1, 0)
	require.Empty(t, r.run(5), "the lock is held")
	require.Equal(t, task.HoldLock, r.get(id).Held)
	require.Equal(t, holder, rows[0].ID)
	r.settled(finish(rows[0]))
	_, err := r.Promote(r.ctx, 1000)
	require.NoError(t, err)
	require.Equal(t, []task.ID{id}, ids(r.run(5)))
}

func afterBatch(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(2)
	rows := r.run(5)
	id, waiting := r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind, After: first[:1]}, store.EnqueueRequest{Type: kind, After: first[1:]})
	r.unblocked(0, 0)
	require.EqualValues(t, 2, r.look(id).Waiting)
	r.settled(finish(rows[0]), fails(rows[1]))
	r.unblocked(1, 1)
	got := r.run(5)
	require.Equal(t, waiting[:1], ids(got))
	r.settled(finish(got[0]))
	r.fold()
	b := r.look(id)
	require.EqualValues(t, 1, b.Succeeded)
	require.EqualValues(t, 1, b.Cancelled)
	require.NotNil(t, b.EndedAt)
}

func afterBatchStops(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(1)
	id, waiting := r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind, After: first})
	next := r.after(waiting...)
	r.unblocked(0, 0)
	_, err := r.CancelBatch(r.ctx, id, "alice")
	require.NoError(t, err)
	r.steps()
	require.Equal(t, task.StateCancelled, r.state(waiting[0]))
	r.unblocked(0, 1)
	require.Equal(t, store.WhyCancelled(waiting[0], task.StateCancelled), r.get(next).Error)
}

func afterRetention(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	old := r.held()
	beside := r.held()
	r.settled(finish(old), finish(beside))
	holder := r.Insert(t, store.EnqueueRequest{Type: "other"})[0]
	id := r.after(old.ID, holder)
	r.unblocked(0, 0)
	r.Advance(t, 10*day)
	r.present()
	r.maintain(7 * day)
	require.Equal(t, task.StateSucceeded, r.state(old.ID), "a row that waits names it")
	r.gone(beside.ID)
	r.settled(finish(r.claim(want("other", 1))[0]))
	r.unblocked(1, 0)
	r.maintain(7 * day)
	r.gone(old.ID)
	require.Equal(t, []task.ID{id}, ids(r.run(5)))
}

// afterCrash has a store crash at each point of a step.
func afterCrash(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	for _, point := range r.Failpoints() {
		first := r.insert(1)
		id := r.after(first...)
		for n := range 4 {
			if n == 2 {
				r.settled(finish(r.run(5)[0]))
			}
			hit := r.crash(point)
			_, err := r.Unblock(r.ctx, 1000)
			r.Fail(nil)
			if hit() {
				require.ErrorIs(t, err, errCrash, point)
			}
			unblockAll(r.ctx, t, r, 1000)
		}
		got := r.run(5)
		require.Equal(t, []task.ID{id}, ids(got), point)
		r.settled(finish(got[0]))
	}
}

// afterKept has applications keep rows where they are: those that wait, and those that are waited for.
func afterKept(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(1)
	id := r.after(first...)
	release := r.LockRow(t, first[0])
	if release == nil {
		return // this store has no locks on rows
	}
	r.unblocked(0, 0) // a lock for a key share lets the mark pass
	release()
	release = r.LockRow(t, id)
	r.settled(finish(r.run(5)[0]))
	u := unblockAll(r.ctx, t, r, 1000)
	release()
	if u.Freed == 0 {
		r.unblocked(1, 0)
	}
	require.Equal(t, []task.ID{id}, ids(r.run(5)))
}

func afterMost(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(1)[0]
	id := r.after(slices.Repeat([]task.ID{first}, store.MaxAfter)...)
	_, _, err := r.Enqueue(r.ctx, store.EnqueueRequest{Type: kind, After: slices.Repeat([]task.ID{first}, store.MaxAfter+1)})
	require.ErrorContains(t, err, "after")
	r.unblocked(0, 0)
	r.settled(finish(r.run(5)[0]))
	r.unblocked(1, 0)
	require.Equal(t, []task.ID{id}, ids(r.run(5)))
}

func afterSeen(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	require.Nil(t, r.get(r.insert(1)[0]).Related)
	first := r.insert(2)
	id := r.Insert(t, store.EnqueueRequest{Type: kind, After: []task.ID{first[1], first[0], first[1]}, AfterIf: store.AfterIfAny})[0]
	other := r.after(first[0])
	r.unblocked(0, 0)
	pending := func(id task.ID) store.Neighbour { return store.Neighbour{ID: id, Type: kind, State: task.StatePending} }
	require.Equal(t, &store.Related{
		After: []store.Neighbour{pending(first[0]), pending(first[1])}, AfterTotal: 2, AfterIf: store.AfterIfAny,
	}, r.get(id).Related)
	require.Equal(t, &store.Related{
		Waiting: []store.Neighbour{pending(id), pending(other)}, WaitingTotal: 2,
	}, r.get(first[0]).Related)
	r.did(became(task.StateCancelled), r.h.Cancel, first[0], "")
	r.unblocked(0, 1)
	cancelled := store.Neighbour{ID: first[0], Type: kind, State: task.StateCancelled}
	require.Equal(t, &store.Related{
		After: []store.Neighbour{cancelled}, AfterTotal: 1, AfterIf: store.AfterIfSucceeded, CancelledFor: first[0],
	}, r.get(other).Related)
	require.Nil(t, r.get(first[0]).Related)
	for range store.MostNeighbours {
		r.after(first[1])
	}
	r.unblocked(0, 0)
	got := r.get(first[1]).Related
	require.Len(t, got.Waiting, store.MostNeighbours)
	require.Equal(t, store.MostNeighbours+1, got.WaitingTotal)
}
