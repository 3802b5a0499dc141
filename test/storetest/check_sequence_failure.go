package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func sequenceBlocks(t testing.TB, h Harness) {
	for _, s := range []task.State{task.StateFailed, task.StateCancelled} {
		r := newSequenceRig(t, h)
		x := r.rows(string(s), 2)
		r.end(x[0], verdictFor(s), s)
		late := r.row(string(s))
		require.Empty(t, r.take(5))
		r.held([]task.ID{x[1], late}, x[1], late)
		r.is(store.SequenceInfo{Sequence: string(s), State: store.SequenceBlocked, Task: x[0], Waiting: 2, Failures: 1})
		_, err := r.CancelSequence(r.ctx, kind, string(s), "")
		require.NoError(t, err)
	}
}

func sequenceFailsAhead(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	x := r.rows("x", 4)
	got := r.take(5)
	_, err := r.Cancel(r.ctx, x[2], "")
	require.NoError(t, err)
	r.promote()
	r.is(store.SequenceInfo{Sequence: "x", State: store.SequenceRunning, Task: x[0], Waiting: 2, Failures: 1})
	r.settled(finish(got[0]))
	r.promote()
	r.run(x[1])
	require.Empty(t, r.take(5), "the third has failed")
	r.is(store.SequenceInfo{Sequence: "x", State: store.SequenceBlocked, Task: x[2], Waiting: 1, Failures: 1})
	id, err := r.SkipSequence(r.ctx, kind, "x", 0, "")
	require.NoError(t, err)
	require.Equal(t, x[2], id)
	r.promoted(1)
	r.run(x[3])
}

func sequenceContinues(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	r.present(task.SequenceContinues)
	x := r.rows("x", 3)
	r.end(x[0], task.Failed, task.StateFailed)
	r.end(x[1], task.Cancelled, task.StateCancelled)
	r.is(store.SequenceInfo{Sequence: "x", State: store.SequenceWaiting, Task: x[2]})
	r.run(x[2])
	all, err := r.ListSequences(r.ctx, store.SequenceFilter{})
	require.NoError(t, err)
	require.Empty(t, all.List)
}

func sequenceRules(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	x := r.rows("x", 3)
	r.end(x[0], task.Failed, task.StateFailed)
	require.Empty(t, r.take(5))
	old := r.present(task.SequenceContinues)
	r.promoted(1)
	r.end(x[1], task.Failed, task.StateFailed)
	late := r.present(task.SequenceBlocks)
	r.end(x[2], task.Failed, task.StateFailed)
	last := r.row("x")
	// The session that declared the older rule is still there, and declares it again.
	a := agent("who declares sequences")
	a.Types, a.Sequences = []string{kind}, []store.TypeSequence{{Type: kind, OnFailure: task.SequenceContinues}}
	_, err := r.Present(r.ctx, store.Heartbeat{Session: old, Agent: a})
	require.NoError(t, err)
	r.promote()
	require.Empty(t, r.take(5), "the newest declaration is in force")
	r.is(store.SequenceInfo{Sequence: "x", State: store.SequenceBlocked, Task: x[2], Waiting: 1, Failures: 1})
	require.NoError(t, r.Leave(r.ctx, late))
	_, err = r.Present(r.ctx, store.Heartbeat{Session: old, Agent: a})
	require.NoError(t, err)
	r.promoted(1)
	r.run(last)
	require.NoError(t, r.Leave(r.ctx, old))
	y := r.rows("y", 2)
	r.end(y[0], task.Failed, task.StateFailed)
	r.run(y[1])
	r.present() // which knows the type, and declares nothing of it
	z := r.rows("z", 2)
	r.end(z[0], task.Failed, task.StateFailed)
	require.Empty(t, r.take(5), "failures block")
}

func sequenceRetried(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	x := r.rows("x", 3)
	r.end(x[0], task.Failed, task.StateFailed)
	_, err := r.RetrySequence(r.ctx, kind, "x", x[1], "")
	var refused *store.RefusedError
	require.ErrorAs(t, err, &refused, "another one blocks")
	id, err := r.RetrySequence(r.ctx, kind, "x", 0, "ops")
	require.NoError(t, err)
	require.Equal(t, x[0], id)
	_, err = r.RetrySequence(r.ctx, kind, "x", 0, "")
	require.ErrorAs(t, err, &refused, "nothing blocks")
	r.run(x[0])
	got := r.take(5)
	require.Equal(t, x[1:2], ids(got))
	// One that is rolled back and retried while another has its turn waits for that.
	became, err := r.Rollback(r.ctx, x[0], "")
	require.NoError(t, err)
	require.EqualValues(t, task.StateRollbackPending, became)
	require.Empty(t, r.take(5))
	r.held([]task.ID{x[0], x[2]}, x[0], x[2])
	r.settled(finish(got[0]))
	r.promoted(1)
	r.end(x[0], task.Succeeded, task.StateRolledBack)
	_, err = r.Retry(r.ctx, x[0], "")
	require.NoError(t, err)
	r.promote()
	require.Equal(t, x[2:], ids(r.take(5)), "it had its turn already")
}

func sequenceSkipped(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	_, err := r.SkipSequence(r.ctx, kind, "x", 0, "")
	require.ErrorIs(t, err, store.ErrNoSequence)
	x := r.rows("x", 3)
	var refused *store.RefusedError
	_, err = r.SkipSequence(r.ctx, kind, "x", 0, "")
	require.ErrorAs(t, err, &refused)
	r.end(x[0], task.Failed, task.StateFailed)
	_, err = r.SkipSequence(r.ctx, kind, "x", x[1], "")
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Text, "blocks")
	id, err := r.SkipSequence(r.ctx, kind, "x", x[0], "ops")
	require.NoError(t, err)
	require.Equal(t, x[0], id)
	_, err = r.SkipSequence(r.ctx, kind, "x", x[0], "")
	require.ErrorAs(t, err, &refused)
	r.promoted(1)
	r.run(x[1])
	r.run(x[2])
}

func sequenceCancelled(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	x := r.rows("x", 4)
	got := r.take(5)
	n, err := r.CancelSequence(r.ctx, kind, "x", "ops")
	require.NoError(t, err)
	require.Equal(t, 3, n)
	n, err = r.CancelSequence(r.ctx, kind, "x", "ops")
	require.NoError(t, err)
	require.Zero(t, n)
	for _, id := range x[1:] {
		require.Equal(t, task.StateCancelled, r.state(id))
	}
	r.is(store.SequenceInfo{Sequence: "x", State: store.SequenceRunning, Task: x[0]})
	late := r.row("x")
	r.settled(finish(got[0]))
	r.promote()
	r.run(late)
}

// sequenceUndone rolls back what had succeeded: the last first, and before what waits. It is no failure.
func sequenceUndone(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	x := r.rows("x", 4)
	for _, id := range x[:3] {
		r.run(id)
	}
	got := r.take(5)
	require.Equal(t, x[3:], ids(got))
	late := r.row("x")
	for _, id := range x[:3] {
		_, err := r.Rollback(r.ctx, id, "")
		require.NoError(t, err)
	}
	require.Empty(t, r.take(5))
	r.settled(finish(got[0]))
	r.promote()
	for _, id := range []task.ID{x[2], x[1], x[0]} {
		r.end(id, task.Succeeded, task.StateRolledBack)
	}
	r.run(late)
}
