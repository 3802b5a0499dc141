package storetest

import (
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
