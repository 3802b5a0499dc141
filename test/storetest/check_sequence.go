package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func sequenceChecks() []Check {
	return []Check{
		{"rows run one after another", sequenceOrder},
		{"in the order of their ids", sequenceByID},
		{"a sequence is of its type", sequenceTypes},
		{"the head keeps its turn through backoff", sequenceBackoff},
		{"and through its rollback", sequenceRollback},
		{"what may be at work keeps the turn", sequenceUnknown},
		{"every end passes it on", sequenceEnds},
		{"a row that commits late is next", sequenceLate},
		{"a failure blocks", sequenceBlocks},
		{"a failure blocks when its turn comes", sequenceFailsAhead},
		{"a failure does not block", sequenceContinues},
		{"what a failure does changes", sequenceRules},
		{"a retried row is next", sequenceRetried},
		{"a skipped failure", sequenceSkipped},
		{"a cancelled sequence", sequenceCancelled},
		{"rollbacks on request", sequenceUndone},
		{"a row whose values are replaced", sequenceReplaced},
		{"a row that goes to another sequence", sequenceLeft},
		{"a follower", sequenceFollowed},
		{"a row with a lock, too", sequenceLocked},
		{"a row that waits for others gives its turn to those before it", sequenceAfter},
		{"rows of a limited type", sequenceLimited},
		{"a failed row is kept", sequenceKept},
		{"it is seen", sequenceSeen},
		{"they are seen page by page", sequencesPaged},
		{"it is counted so far", sequencesCapped},
		{"what waits for its turn is not due", sequenceNotDue},
		{"a lost promotion is repeated", sequenceCrash},
	}
}

func sequenceOrder(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	x, y := r.rows("x", 3), r.rows("y", 2)
	free := r.insert(2)
	got := r.take(10)
	require.Equal(t, []task.ID{x[0], y[0], free[0], free[1]}, ids(got))
	require.Equal(t, "x", got[0].Sequence)
	r.held([]task.ID{x[1], x[2], y[1]}, slices.Concat(x, y)...)
	require.Empty(t, r.take(10))
	r.promoted(0)
	r.settled(finish(got[0]), finish(got[2]))
	require.Empty(t, r.take(10), "what is held back waits for a promotion")
	r.promoted(1)
	r.held([]task.ID{x[2], y[1]}, slices.Concat(x, y)...)
	more := r.take(10)
	require.Equal(t, x[1:2], ids(more))
	r.settled(finish(got[1]), finish(more[0]))
	r.promoted(2)
	last := r.take(10)
	require.Equal(t, []task.ID{x[2], y[1]}, ids(last))
	r.settled(finish(last[0]), finish(last[1]))
	r.promoted(0)
}

func sequenceByID(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	add := func(priority int, in time.Duration) task.ID {
		return r.Insert(t, store.EnqueueRequest{Type: kind, Sequence: "x", Priority: priority, RunAt: r.now().Add(in)})[0]
	}
	first, second, third := add(-1, time.Hour), add(10, -time.Hour), add(0, -2*time.Hour)
	require.Empty(t, r.take(5), "the first is not due yet")
	r.held([]task.ID{second, third}, first, second, third)
	r.Advance(t, 2*time.Hour)
	for _, id := range []task.ID{first, second, third} {
		r.run(id)
	}
}

func sequenceTypes(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	a := r.row("x")
	b := r.Insert(t, store.EnqueueRequest{Type: "suite.other", Sequence: "x"})[0]
	require.Equal(t, []task.ID{a, b}, ids(r.claim(want(kind, 5), want("suite.other", 5))))
}

func sequenceBackoff(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	x := r.rows("x", 2)
	r.settled(retry(r.take(5)[0], time.Hour))
	r.promoted(0)
	require.Empty(t, r.take(5))
	r.is(store.SequenceInfo{Sequence: "x", State: store.SequenceWaiting, Task: x[0], Waiting: 1})
	r.Advance(t, 2*time.Hour)
	r.run(x[0])
	r.run(x[1])
}

func sequenceRollback(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	x := r.rows("x", 2)
	r.end(x[0], task.Failed, task.StateRollbackPending)
	r.held(x[1:], x...)
	r.end(x[0], task.Succeeded, task.StateRolledBack)
	require.Empty(t, r.take(5), "it has not succeeded")
	r.is(store.SequenceInfo{Sequence: "x", State: store.SequenceBlocked, Task: x[0], Waiting: 1, Failures: 1})
}

func sequenceUnknown(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	x := r.rows("x", 2)
	end := ended(r.take(5)[0], task.TimedOut, task.StateSucceeded)
	end.Next.AfterLease = true
	r.settled(end)
	p, err := r.Promote(r.ctx, 1000)
	require.NoError(t, err)
	require.Zero(t, p.Rows, "it is not over")
	left := wantOf(kind, task.Run, 1).Window
	require.LessOrEqual(t, p.Next, left)
	require.Greater(t, p.Next, left-slack)
	late := r.row("x")
	require.Empty(t, r.take(5), "nor for those who come later")
	r.held([]task.ID{x[1], late}, x[1], late)
	r.Advance(t, p.Next+time.Second)
	r.promoted(1)
	r.run(x[1])
	r.run(late)
}

func sequenceEnds(t testing.TB, h Harness) {
	for name, end := range map[string]func(r *sequenceRig, row task.Task){
		"succeeded": func(r *sequenceRig, row task.Task) { r.settled(finish(row)) },
		"with a report": func(r *sequenceRig, row task.Task) {
			e := finish(row)
			e.Report = reported(`0.5`, "half", `{"page":1}`)
			r.settled(e)
		},
		"completed":      func(r *sequenceRig, row task.Task) { r.completes(row) },
		"completed, SQL": func(r *sequenceRig, row task.Task) { r.completesSQL(row) },
	} {
		r := newSequenceRig(t, h)
		x := r.rows(name, 3)
		got := r.take(5)
		require.Equal(t, x[:1], ids(got), name)
		end(r, got[0])
		r.promoted(1)
		r.held(x[2:], x[1:]...)
		r.run(x[1])
		r.run(x[2])
	}
}

// sequenceLate has the transaction of the first row commit after those of the others. Where there is one writer this cannot be.
func sequenceLate(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	release := r.LockRow(t, r.insert(1)[0])
	if release == nil {
		return
	}
	release()
	r.settled(finish(r.take(1)[0]))
	app := r.Produce(t)
	all, err := app.Insert(r.ctx, store.EnqueueRequest{Type: kind, Sequence: "x"})
	require.NoError(t, err)
	if len(all) == 0 { // the model inserts when it commits
		require.NoError(t, app.Rollback(r.ctx))
		return
	}
	late := all[0]
	x := r.rows("x", 3)
	require.Less(t, late, x[0])
	row := r.take(5)
	require.Equal(t, x[:1], ids(row))
	require.NoError(t, app.Commit(r.ctx))
	require.Empty(t, r.take(5))
	r.held([]task.ID{late, x[1], x[2]}, late, x[1], x[2])
	r.settled(finish(row[0]))
	r.promoted(1)
	r.run(late)
	r.run(x[1])
	r.run(x[2])
}

// sequenceKept has retention pass over a failure that blocks, and take it once that is resolved.
func sequenceKept(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	x := r.rows("x", 2)
	free := r.insert(1)[0]
	for _, row := range r.take(5) {
		s := ended(row, task.Failed, task.StateFailed)
		r.settled(s)
	}
	r.promote()
	r.Advance(t, 100*24*time.Hour)
	_, err := r.Maintain(r.ctx, 24*time.Hour)
	require.NoError(t, err)
	_, err = r.Get(r.ctx, free)
	require.ErrorIs(t, err, store.ErrNoTask)
	require.Equal(t, task.StateFailed, r.state(x[0]))
	r.is(store.SequenceInfo{Sequence: "x", State: store.SequenceBlocked, Task: x[0], Waiting: 1, Failures: 1})
	_, err = r.SkipSequence(r.ctx, kind, "x", 0, "")
	require.NoError(t, err)
	_, err = r.Maintain(r.ctx, 24*time.Hour)
	require.NoError(t, err)
	_, err = r.Get(r.ctx, x[0])
	require.ErrorIs(t, err, store.ErrNoTask)
}

func sequenceSeen(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	r.rows("b", 2)
	a := r.rows("a", 3)
	all, err := r.ListSequences(r.ctx, store.SequenceFilter{})
	require.NoError(t, err)
	require.Len(t, all.List, 2)
	require.Equal(t, "a", all.List[0].Sequence)
	r.is(store.SequenceInfo{Sequence: "a", State: store.SequenceWaiting, Task: a[0], Waiting: 2})
	r.take(5)
	r.is(store.SequenceInfo{Sequence: "a", State: store.SequenceRunning, Task: a[0], Waiting: 2})
	all, err = r.ListSequences(r.ctx, store.SequenceFilter{FromType: kind, FromName: "b"})
	require.NoError(t, err)
	require.Len(t, all.List, 1)
	all, err = r.ListSequences(r.ctx, store.SequenceFilter{Limit: 1})
	require.NoError(t, err)
	require.Len(t, all.List, 1)
	next, err := r.SequenceRows(r.ctx, kind, "a", 2)
	require.NoError(t, err)
	require.Equal(t, a[:2], next)
}

// sequencesPaged: pages have all of them, blocked ones of which no row waits included, and none whose failures block nothing.
func sequencesPaged(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	a := agent("others")
	a.Types = []string{"b", "c"}
	a.Sequences = []store.TypeSequence{{Type: "b", OnFailure: task.SequenceContinues}}
	_, err := r.Join(r.ctx, a)
	require.NoError(t, err)
	var reqs []store.EnqueueRequest
	for _, typ := range []string{"b", "c", kind} {
		for _, name := range []string{"u", "v", "w", "x"} {
			reqs = append(reqs, store.EnqueueRequest{Type: typ, Sequence: name}, store.EnqueueRequest{Type: typ, Sequence: name + "y"})
		}
	}
	r.Insert(t, reqs...)
	for _, row := range r.claim(want("b", 4), want("c", 4), want(kind, 4)) {
		r.settled(ended(row, task.Failed, task.StateFailed)) // and no promotion passes on its turn
	}
	all, err := r.ListSequences(r.ctx, store.SequenceFilter{Limit: 1000})
	require.NoError(t, err)
	require.Len(t, all.List, 20)
	for _, only := range []string{"", "b", "c", kind, "none"} {
		var want, got []store.SequenceInfo
		for _, i := range all.List {
			if only == "" || i.Type == only {
				want = append(want, i)
			}
		}
		for f := (store.SequenceFilter{Type: only, FromType: only, Limit: 4}); ; {
			page, err := r.ListSequences(r.ctx, f)
			require.NoError(t, err)
			got = append(got, page.List[:min(len(page.List), 3)]...)
			if len(page.List) < 4 {
				break
			}
			f.FromType, f.FromName = page.List[3].Type, page.List[3].Sequence
		}
		require.Equal(t, want, got, only)
	}
}

func sequencesCapped(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	var reqs []store.EnqueueRequest
	add := func(name string, n int) {
		for range n {
			reqs = append(reqs, store.EnqueueRequest{Type: kind, Sequence: name})
		}
	}
	for n := range 210 {
		add(fmt.Sprintf("short %03d", n), 1)
	}
	most := store.CountedOf(212)
	add("just", most+1)
	add("long", most+2)
	r.Insert(t, reqs...)
	all, err := r.ListSequences(r.ctx, store.SequenceFilter{Limit: 1000})
	require.NoError(t, err)
	require.Len(t, all.List, 212)
	require.Equal(t, []int{most, most, 0}, []int{all.List[0].Waiting, all.List[1].Waiting, all.List[2].Waiting})
	require.Equal(t, []bool{false, true, false}, []bool{all.List[0].Capped, all.List[1].Capped, all.List[2].Capped})
	all, err = r.ListSequences(r.ctx, store.SequenceFilter{Type: kind, Name: "long"})
	require.NoError(t, err)
	require.Len(t, all.List, 1)
	require.Equal(t, most+1, all.List[0].Waiting)
	require.False(t, all.List[0].Capped, "one is counted further")
}

func sequenceNotDue(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	r.rows("x", 2)
	r.take(5)
	_, ok, err := r.NextDue(r.ctx, store.Claim{Session: r.session, Wants: []store.Want{want(kind, 1)}})
	require.NoError(t, err)
	require.False(t, ok)
	st, err := r.Stats(r.ctx)
	require.NoError(t, err)
	require.NotContains(t, st.OldestDue, kind)
	require.Contains(t, st.Waiting, store.TypeCount{Type: kind, State: task.StatePending, N: 1})
}

func sequenceCrash(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	for _, point := range r.Failpoints() {
		x := r.rows(point, 2)
		r.settled(finish(r.take(5)[0]))
		hit := r.crash(point)
		_, err := r.Promote(r.ctx, 1000)
		r.Fail(nil)
		if hit() {
			require.ErrorIs(t, err, errCrash, point)
		}
		_, err = r.Promote(r.ctx, 1000)
		require.NoError(t, err)
		r.run(x[1])
	}
}
