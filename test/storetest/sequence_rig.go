package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// sequenceRig is a rig for rows with sequences.
type sequenceRig struct{ *lockRig }

func newSequenceRig(t testing.TB, h Harness) *sequenceRig { return &sequenceRig{newLockRig(t, h)} }

// row inserts a due row of kind with a sequence.
func (r *sequenceRig) row(name string) task.ID {
	r.t.Helper()
	return r.Insert(r.t, store.EnqueueRequest{Type: kind, Sequence: name})[0]
}

// rows inserts n of them.
func (r *sequenceRig) rows(name string, n int) (all []task.ID) {
	r.t.Helper()
	for range n {
		all = append(all, r.row(name))
	}
	return all
}

// run takes one row, which must be that one, and settles it as succeeded.
func (r *sequenceRig) run(id task.ID) {
	r.t.Helper()
	r.end(id, task.Succeeded, task.StateSucceeded)
}

// end takes one row, which must be that one, settles it so, and passes on its turn.
func (r *sequenceRig) end(id task.ID, v task.Verdict, s task.State) {
	r.t.Helper()
	got := r.take(5)
	require.Equal(r.t, []task.ID{id}, ids(got), "whose turn it is")
	r.settled(ended(got[0], v, s))
	r.promote()
}

// held asserts which of some tasks wait for their turn.
func (r *sequenceRig) held(want []task.ID, of ...task.ID) {
	r.t.Helper()
	var got []task.ID
	for _, id := range of {
		if r.get(id).Held == task.HoldSequence {
			got = append(got, id)
		}
	}
	require.Equal(r.t, want, got, "which tasks wait for their turn")
}

// is asserts what an operator sees of the one sequence of that name, but since when.
func (r *sequenceRig) is(want store.SequenceInfo) {
	r.t.Helper()
	all, err := r.ListSequences(r.ctx, store.SequenceFilter{Type: kind, Name: want.Sequence})
	require.NoError(r.t, err)
	require.Len(r.t, all.List, 1)
	got := all.List[0]
	require.WithinDuration(r.t, r.Now(), got.Since, 10000*time.Hour)
	got.Since = time.Time{}
	want.Type = kind
	require.Equal(r.t, want, got)
}

// present has a session declare what failures do, and returns it.
func (r *sequenceRig) present(rules ...string) task.Session {
	r.t.Helper()
	a := agent("who declares sequences")
	a.Types = []string{kind}
	for _, rule := range rules {
		a.Sequences = append(a.Sequences, store.TypeSequence{Type: kind, OnFailure: rule})
	}
	s, err := r.Join(r.ctx, a)
	require.NoError(r.t, err)
	return s
}

// sequencesAreRight finds what must never be of the tasks of a store: two that run, or have started and are not over, of one sequence; or one
// that waits for its turn while nothing has it, when all turns were passed on and none is blocked.
func sequencesAreRight(t require.TestingT, tasks []store.TaskInfo, blocked map[[2]string]bool, passedOn bool) {
	running, candidates := map[[2]string]task.ID{}, map[[2]string]bool{}
	for i := range tasks {
		row := &tasks[i]
		of := [2]string{row.Type, row.Sequence}
		switch {
		case row.Sequence == "":
			require.NotEqual(t, task.HoldSequence, row.Held, "task %d has no sequence to wait for", row.ID)
		case row.State.Running():
			require.Zero(t, running[of], "task %d runs in sequence %s, too", row.ID, row.Sequence)
			running[of] = row.ID
		case row.State.Waiting() && row.Follows == 0 && row.Held != task.HoldSequence:
			candidates[of] = true
		}
	}
	for i := range tasks {
		row := &tasks[i]
		of := [2]string{row.Type, row.Sequence}
		if row.Held == task.HoldSequence && passedOn && running[of] == 0 && !blocked[of] {
			require.True(t, candidates[of], "task %d waits for its turn in sequence %s, which no other has", row.ID, row.Sequence)
		}
	}
}
