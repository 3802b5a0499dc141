package check

import (
	"slices"

	"github.com/leasehold/leasehold/internal/task"
)

// FreshBudget says: a task that an operator retries begins anew, and is the same task still. It has all of its attempts
// again, in the next round, out of a state that can be retried; its fence goes on from where it stood, and never falls.
// A rollback has its own attempts, too.
//
// It must hold because a retry and a rollback set the count back and the fence forward, in one statement.
const FreshBudget Name = "FreshBudget"

func freshBudget(x *index, f *found) {
	for _, s := range x.records {
		for i, m := range s.moves {
			if i > 0 && m.Fence < s.moves[i-1].Fence {
				f.add(FreshBudget, x.last(s), s.id, "its fence fell from %d to %d", s.moves[i-1].Fence, m.Fence)
			}
		}
		for i, st := range s.stretches {
			if i == 0 || st.first == nil {
				continue
			}
			x.inspectBegin(s, s.stretches[i-1], st, f)
		}
	}
}

// inspectBegin looks at how a stretch began after another.
func (x *index) inspectBegin(s *record, before, st *stretch, f *found) {
	at, m := x.last(s), st.first
	if m.Attempt != 0 {
		f.add(FreshBudget, at, s.id, "its %s began with %d attempts counted", st.name(), m.Attempt)
	}
	if before.end != nil && m.Fence <= before.end.fence {
		f.add(FreshBudget, at, s.id, "its %s began with fence %d, and it had ended with %d", st.name(), m.Fence, before.end.fence)
	}
	switch {
	case st.phase == task.Rollback && st.round != before.round:
		f.add(FreshBudget, at, s.id, "its rollback began in round %d, after round %d", st.round, before.round)
	case st.phase == task.Run && st.round != before.round+1:
		f.add(FreshBudget, at, s.id, "its run began in round %d, after round %d", st.round, before.round)
	case st.phase == task.Run && !retryable(before.end):
		f.add(FreshBudget, at, s.id, "its %s began, and it had not ended in a state that can be retried: %s", st.name(), stood(before))
	case st.phase == task.Run && !x.requested(s, verbRetry, forever) && !x.revivedWith(s):
		f.add(FreshBudget, at, s.id, "its %s began, and no retry was requested", st.name())
	}
}

// retryable reports whether a task that ended so can be retried.
func retryable(e *ending) bool {
	return e != nil && slices.Contains([]task.State{task.StateFailed, task.StateCancelled, task.StateRolledBack}, e.state)
}

// stood is how a stretch ended, for people.
func stood(st *stretch) string {
	if st.end == nil {
		return "it was live"
	}
	return string(st.end.state)
}
