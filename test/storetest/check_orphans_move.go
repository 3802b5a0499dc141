package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func orphanMoveChecks() []Check {
	return []Check{
		{"moved to another type", orphansMoved},
		{"moved with their keys and followers", orphansMovedKeys},
		{"not moved where a rollback is needed", orphansMovedRollback},
		{"moved with their locks and predecessors", orphansMovedLocks},
		{"moved away from one that stays", orphansMovedPast},
		{"moved with their batches, regions and tenants", orphansMovedBatch},
		{"moved as whole sequences", orphansMovedSequences},
		{"of a sequence that may be at work stay", orphansMovedUnknown},
		{"of a sequence that another type has", orphansMovedInto},
		{"moved in steps", orphansMovedInSteps},
		{"of a long sequence stay", orphansLong},
		{"moved by several at once", orphansMovedAtOnce},
		{"not moved", orphansMoveRefused},
	}
}

// oldRow asks for a row of a type that no agent declares.
func oldRow() store.EnqueueRequest { return store.EnqueueRequest{Type: "old"} }

// move moves rows of the type old to kind, after a preview that has to say the same. left are those that have to stay.
func (r *opsRig) move(changed int, left ...store.OrphanLeft) {
	r.t.Helper()
	for _, preview := range []bool{true, false} {
		got, _ := r.stepped(r.MoveOrphans, store.OrphanStep{Type: "old", Into: kind, Preview: preview})
		require.Equal(r.t, store.OrphansStepped{Changed: changed, Left: left}, got, "preview %v", preview)
	}
	for range 2 {
		_, err := r.Promote(r.ctx, 1000)
		require.NoError(r.t, err)
	}
	got, _ := r.stepped(r.MoveOrphans, store.OrphanStep{Type: "old", Into: kind})
	require.Equal(r.t, store.OrphansStepped{Left: left}, got, "a repeat moves nothing")
}

// typed asserts the types of tasks.
func (r *opsRig) typed(typ string, of ...task.ID) {
	r.t.Helper()
	for _, id := range of {
		require.Equal(r.t, typ, r.get(id).Type, "task %d", id)
	}
}

func orphansMoved(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	back := r.rowIn(oldRow(), task.StateRollbackPending, true)
	failed := r.rowIn(oldRow(), task.StateRetryPending, true)
	running := r.rowIn(oldRow(), task.StateRunning, true)
	pending := r.rowIn(oldRow(), task.StatePending, false)
	other := r.Insert(t, store.EnqueueRequest{Type: "olde", In: farOff})[0]
	before := map[task.ID]*store.TaskInfo{}
	for _, id := range []task.ID{back, failed, running, pending, other} {
		before[id] = r.get(id)
	}
	step := store.OrphanStep{Type: "old", Into: kind, By: "alice", Reason: "renamed"}
	note := func(id task.ID) Audited {
		return Audited{Who: "alice", Verb: "move", Task: id, Reason: "renamed", Answer: `moved from "old" to "suite.work"`}
	}
	r.audited(func() {
		got, _ := r.stepped(r.MoveOrphans, step)
		require.Equal(t, store.OrphansStepped{Changed: 3}, got)
	}, note(back), note(failed), note(pending),
		Audited{Who: "alice", Verb: "move", Type: "old", Reason: "renamed", Answer: `moved 3 to "suite.work"`})
	for id, was := range before {
		if id != running && id != other {
			was.Type = kind
		}
		require.Equal(t, was, r.get(id), "nothing but the type")
	}
	require.Empty(t, r.orphansOf("old"))
	r.audited(func() {
		got, _ := r.stepped(r.MoveOrphans, step)
		require.Zero(t, got)
	})
	r.Advance(t, farOff)
	r.present()
	require.ElementsMatch(t, []task.ID{back, failed, pending}, ids(r.claim(wantOf(kind, task.Run, 5), wantOf(kind, task.Rollback, 5))))
}

// orphansOf counts the waiting rows of a type that are orphans.
func (r *rig) orphansOf(typ string) (n int64) {
	r.t.Helper()
	for _, o := range r.orphans() {
		if o.Type == typ {
			n += o.Waiting
		}
	}
	return n
}

func orphansMovedKeys(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	keyed := func(typ, key string, live store.OnLive) task.ID {
		id, _, err := r.Enqueue(r.ctx, store.EnqueueRequest{Type: typ, Key: key, OnLive: live, In: farOff})
		require.NoError(t, err)
		return id
	}
	free, taken := keyed("old", "free", ""), keyed("old", "taken", "")
	follows, stays := keyed("old", "free", store.OnLiveAgain), keyed("old", "taken", store.OnLiveAgain)
	has := keyed(kind, "taken", "")
	r.move(1, store.OrphanLeft{ID: taken, Reason: store.OrphanKey, Rows: 1})
	r.typed(kind, free, follows, has)
	r.typed("old", taken, stays)
	require.Equal(t, free, r.get(follows).Follows)
	require.Equal(t, taken, r.get(stays).Follows)
	require.Equal(t, free, keyed(kind, "free", ""), "the key is taken now")
	require.NotEqual(t, free, keyed("old", "free", ""), "and free again")
	r.did(store.Became(task.StateCancelled), r.h.Cancel, free, "")
	require.Zero(t, r.get(follows).Follows, "it has become a task")
	r.did(store.Became(task.StateCancelled), r.h.Cancel, has, "")
	got, _ := r.stepped(r.MoveOrphans, store.OrphanStep{Type: "old", Into: kind})
	require.Equal(t, 1, got.Changed, "its key is free now")
	r.typed(kind, taken, stays)
}

func orphansMovedRollback(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	back := r.rowIn(oldRow(), task.StateRollbackPending, true)
	failed := r.rowIn(oldRow(), task.StateRetryPending, true)
	released := r.rowIn(oldRow(), task.StateRetryPending, false)
	fresh := r.rowIn(oldRow(), task.StatePending, false)
	for into, changed := range map[string]int{oneWayKind: 2, "unknown": 0} {
		got, _ := r.stepped(r.MoveOrphans, store.OrphanStep{Type: "old", Into: into, Preview: into != oneWayKind})
		require.Equal(t, []store.OrphanLeft{
			{ID: back, Reason: store.OrphanNoRollback, Rows: 1}, {ID: failed, Reason: store.OrphanNoRollback, Rows: 1},
		}, got.Left, into)
		if changed > 0 {
			require.Equal(t, changed, got.Changed, into)
			r.typed(oneWayKind, released, fresh)
		}
	}
	r.typed("old", back, failed)
	r.move(2)
}

func orphansMovedLocks(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	rows := make([]task.ID, 4)
	for i := range rows {
		rows[i] = r.Insert(t, store.EnqueueRequest{Type: "old", Lock: "l"})[0]
	}
	before := r.locked("l", 1)[0]
	waits := r.Insert(t, store.EnqueueRequest{Type: "old", After: []task.ID{before}})[0]
	got := r.claim(wantOf("old", task.Run, 4)) // the others wait for its lock
	require.Equal(t, rows[:1], ids(got))
	r.settled(ended(got[0], task.Failed, task.StateRetryPending))
	_, err := r.Promote(r.ctx, 1000)
	require.NoError(t, err)
	r.move(5)
	r.typed(kind, append([]task.ID{before, waits}, rows...)...)
	r.right(true)
	order := []task.ID{before}
	for left := 5; left > 0; left-- {
		one := r.take(9)
		require.Len(t, one, 1, "one has the lock")
		order = append(order, one[0].ID)
		r.settled(finish(one[0]))
		r.promote()
	}
	require.ElementsMatch(t, append([]task.ID{before}, rows...), order[1:])
	require.Equal(t, 1, unblockAll(r.ctx, t, r, 1000).Freed)
	require.Equal(t, []task.ID{waits}, ids(r.take(9)), "it has waited for the other")
}

// orphansMovedPast: a row that waits for its lock behind one that stays waits for that no more, as no agent may ever claim it.
func orphansMovedPast(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	stay := r.Insert(t, store.EnqueueRequest{Type: "old", Lock: "l", Key: "j"}, store.EnqueueRequest{Type: "old", Lock: "l", Key: "k"})
	r.Insert(t, store.EnqueueRequest{Type: kind, Key: "j", In: farOff}, store.EnqueueRequest{Type: kind, Key: "k", In: farOff})
	held := r.Insert(t, store.EnqueueRequest{Type: "old", Lock: "l"})[0]
	got := r.claim(wantOf("old", task.Run, 4))
	require.Equal(t, stay[:1], ids(got))
	r.settled(release(got[0]))
	r.promoted(1)
	r.waitFor([]task.ID{held}, append(stay, held)...)
	one, _ := r.stepped(r.MoveOrphans, store.OrphanStep{Type: "old", Into: kind})
	require.Equal(t, store.OrphansStepped{Changed: 1, Left: []store.OrphanLeft{
		{ID: stay[0], Reason: store.OrphanKey, Rows: 1}, {ID: stay[1], Reason: store.OrphanKey, Rows: 1},
	}}, one)
	r.promoted(1)
	require.Equal(t, []task.ID{held}, ids(r.take(5)))
}

func orphansMovedBatch(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	b, of := r.batch(store.BatchRequest{}, oldRow(), store.EnqueueRequest{Type: "old", Tenant: "acme"})
	rows := append(of, r.Insert(t, store.EnqueueRequest{Type: "old", Region: "eu"},
		store.EnqueueRequest{Type: "old", Tenant: "acme", Priority: 5})...)
	r.move(4)
	r.inState(b, store.BatchPending)
	var got []task.Task
	for range 3 {
		got = append(got, r.claimIn("eu", wantOf(kind, task.Run, 9))...)
	}
	require.ElementsMatch(t, rows, ids(got))
	for i := range got {
		r.settled(finish(got[i]))
	}
	r.fold()
	r.inState(b, store.BatchSucceeded)
}

func orphansMovedSequences(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	row := func(name, key string) task.ID {
		return r.Insert(t, store.EnqueueRequest{Type: "old", Sequence: name, Key: key})[0]
	}
	a, b, c, d := []task.ID{row("a", ""), row("a", "")}, []task.ID{row("b", ""), row("b", "")}, []task.ID{row("c", ""), row("c", "")}, row("d", "")
	a = append(a, row("a", ""))
	taken := []task.ID{row("e", ""), row("e", "taken"), row("e", "")}
	r.Insert(t, store.EnqueueRequest{Type: kind, Key: "taken", In: farOff})
	heads := r.claim(wantOf("old", task.Run, 20))
	require.ElementsMatch(t, []task.ID{a[0], b[0], c[0], d, taken[0]}, ids(heads))
	for _, head := range heads {
		switch head.ID {
		case b[0]: // it runs
		case c[0]:
			r.settled(ended(head, task.Failed, task.StateFailed))
		case d:
			r.settled(finish(head))
		default:
			r.settled(ended(head, task.Failed, task.StateRetryPending))
		}
	}
	_, err := r.Promote(r.ctx, 1000)
	require.NoError(t, err)
	r.move(3, store.OrphanLeft{ID: b[0], Sequence: "b", Reason: store.OrphanRunning, Rows: 1},
		store.OrphanLeft{ID: c[1], Sequence: "c", Reason: store.OrphanFailure, Rows: 1},
		store.OrphanLeft{ID: taken[1], Sequence: "e", Reason: store.OrphanKey, Rows: 3})
	r.typed(kind, a...)
	r.typed("old", append([]task.ID{b[0], b[1], c[0], c[1]}, taken...)...)
	all, err := r.ListSequences(r.ctx, store.SequenceFilter{Type: "old"})
	require.NoError(t, err)
	require.Len(t, all.List, 3, "nothing is left of those that were moved")
	for _, id := range a {
		r.run(id)
	}
	require.Empty(t, r.take(5))

	_, err = r.SkipSequence(r.ctx, "old", "c", 0, "")
	require.NoError(t, err)
	got, _ := r.stepped(r.MoveOrphans, store.OrphanStep{Type: "old", Into: kind})
	require.Equal(t, 1, got.Changed, "nothing blocks it any more")
	r.run(c[1])
}

// orphansMovedUnknown: what an attempt of a sequence may still do keeps its other rows.
func orphansMovedUnknown(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	rows := r.Insert(t, store.EnqueueRequest{Type: "old", Sequence: "s"}, store.EnqueueRequest{Type: "old", Sequence: "s"})
	end := ended(r.claim(wantOf("old", task.Run, 1))[0], task.TimedOut, task.StateSucceeded)
	end.Next.AfterLease = true
	r.settled(end)
	r.move(0, store.OrphanLeft{ID: rows[1], Sequence: "s", Reason: store.OrphanRunning, Rows: 1})
	r.Advance(t, later)
	r.present()
	r.promote()
	one, _ := r.stepped(r.MoveOrphans, store.OrphanStep{Type: "old", Into: kind})
	require.Equal(t, store.OrphansStepped{Changed: 1}, one)
	require.Equal(t, 1, r.promote().Noted, "what the store knows of the sequence is forgotten")
	r.run(rows[1])
}

// orphansMovedInto: rows that come to a sequence take turns with those that it has.
func orphansMovedInto(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	olds := []task.ID{r.Insert(t, store.EnqueueRequest{Type: "old", Sequence: "s"})[0]}
	has := r.rows("s", 2)
	olds = append(olds, r.Insert(t, store.EnqueueRequest{Type: "old", Sequence: "s"})[0], r.Insert(t, store.EnqueueRequest{Type: "old", Sequence: "s"})[0])
	got := r.claim(wantOf("old", task.Run, 20)) // the others are held back
	require.Equal(t, olds[:1], ids(got))
	r.settled(ended(got[0], task.Failed, task.StateRetryPending))
	head := r.take(5)
	require.Equal(t, has[:1], ids(head))
	r.move(3)
	require.Empty(t, r.take(5), "another has the turn")
	r.settled(finish(head[0]))
	r.promote()
	for _, id := range []task.ID{olds[0], has[1], olds[1], olds[2]} {
		r.run(id)
	}
}

func orphansMovedInSteps(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	var rows []store.EnqueueRequest
	for i := range store.OrphansChanged + 2 {
		if rows = append(rows, oldRow()); i < 20 {
			rows = append(rows, store.EnqueueRequest{Type: "old", Sequence: fmt.Sprintf("s%d", i/2)})
		}
	}
	all := r.Insert(t, rows...)
	got, steps := r.stepped(r.MoveOrphans, store.OrphanStep{Type: "old", Into: kind, Preview: true})
	require.Equal(t, store.OrphansStepped{Changed: len(all)}, got)
	require.Equal(t, 3, steps)
	want, release := store.OrphansStepped{Changed: len(all)}, func() {}
	if one, two := r.LockRow(t, all[4]), r.LockRow(t, all[7]); one != nil { // a store without locks on rows has nothing to pass over
		want = store.OrphansStepped{Changed: len(all) - 3, Left: []store.OrphanLeft{
			{ID: all[4], Reason: store.OrphanBusy, Rows: 1}, {ID: all[7], Sequence: "s1", Reason: store.OrphanBusy, Rows: 2},
		}}
		release = func() { one(); two() }
	}
	got, _ = r.stepped(r.MoveOrphans, store.OrphanStep{Type: "old", Into: kind})
	release()
	require.Equal(t, want, got)
	got, _ = r.stepped(r.MoveOrphans, store.OrphanStep{Type: "old", Into: kind})
	require.Equal(t, len(all)-want.Changed, got.Changed)
	require.Zero(t, r.orphansOf("old"))
}

func orphansLong(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	rows := []store.EnqueueRequest{{Type: "old", Sequence: "a"}}
	for range store.OrphansChanged + 1 {
		rows = append(rows, store.EnqueueRequest{Type: "old", Sequence: "b"})
	}
	all := r.Insert(t, append(rows, store.EnqueueRequest{Type: "old", Sequence: "c"})...)
	r.move(2, store.OrphanLeft{ID: all[1], Sequence: "b", Reason: store.OrphanLong, Rows: store.OrphansChanged + 1})
	require.EqualValues(t, store.OrphansChanged+1, r.orphansOf("old"))
}

func orphansMovedAtOnce(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	var rows []store.EnqueueRequest
	for i := range 300 {
		rows = append(rows, store.EnqueueRequest{Type: "old", Key: fmt.Sprint(i), Sequence: []string{"", "a", "b"}[i%3]})
	}
	r.Insert(t, rows...)
	const n = 4
	type result struct {
		changed int
		err     error
	}
	results := make(chan result, n)
	for range n {
		twin := r.twin()
		go func() {
			var sum result
			for range 3 {
				o := store.OrphanStep{Type: "old", Into: kind}
				for done := false; !done && sum.err == nil; {
					var one store.OrphansStepped
					one, sum.err = twin.MoveOrphans(r.ctx, o)
					sum.changed += one.Changed
					o.From, done = one.Next, one.Done
				}
			}
			results <- sum
		}()
	}
	total := 0
	for range n {
		one := <-results
		require.NoError(t, one.err)
		total += one.changed
	}
	got, _ := r.stepped(r.MoveOrphans, store.OrphanStep{Type: "old", Into: kind})
	require.Equal(t, len(rows), total+got.Changed, "each was moved once")
	require.Zero(t, r.orphansOf("old"))
}

func orphansMoveRefused(t testing.TB, h Harness) {
	r := newRig(t, h)
	id := r.insert(1)[0]
	r.noted(func() {
		_, err := r.MoveOrphans(r.ctx, store.OrphanStep{Type: kind, Into: "new"})
		refusal(t, "Go", err, `agent "first" declares the type "suite.work": its tasks are no orphans`)
		for _, into := range []string{"", "old", strings.Repeat("x", 256)} {
			_, err := r.MoveOrphans(r.ctx, store.OrphanStep{Type: "old", Into: into})
			require.ErrorContains(t, err, "the other type must have 1 to 255 bytes, and be another")
		}
	})
	require.Equal(t, kind, r.get(id).Type)
}
