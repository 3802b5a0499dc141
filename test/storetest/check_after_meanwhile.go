package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

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
