package poll

import (
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// answeredAll acts on the store's answers, and returns the outcomes that are to be tried again. room has the types of which there may be
// room in limits now, and their tenants that have left a place.
func (s *settler) answeredAll(batch []*unsettled, answers []store.Answer, room map[string][]string) (again []*unsettled) {
	moved, unlocked, ended := false, false, false
	for i, u := range batch {
		moved = moved || u.row().Batch != 0 && answers[i] == store.Applied
		// A row that is lost may have been completed by an application.
		if u.row().Lock != "" || u.row().Sequence != "" {
			unlocked = unlocked || answers[i] == store.Applied || answers[i] == store.Ended || answers[i] == store.Lost
		}
		ended = ended || u.Next.State.Finished() || answers[i] == store.Lost
		if !s.answered(u, answers[i]) {
			again = append(again, u)
		} else if u.lease != nil && s.e.memory.ended(documents(u.row()), s.e.o.Clock.Now()) {
			s.e.wake.turn()
		}
	}
	if moved {
		s.e.o.Batch()
	}
	s.e.slots.madeRoom(room)
	if unlocked {
		s.e.locks.call()
	}
	if ended {
		s.e.after.ended()
	}
	return again
}

// answered acts on the store's answer for one row. It returns false if the row must be settled again: Busy, because another
// transaction had locked it; CancelPending, because a cancellation was requested after the decision; and CannotSplit. A Lost outcome is dropped:
// the attempt that holds the row now has the last word.
func (s *settler) answered(u *unsettled, a store.Answer) bool {
	switch a {
	case store.Busy:
		return false
	case store.CancelPending:
		s.decideAgain(u, true)
		return false
	case store.CannotSplit:
		s.decideAgain(u, false)
		return false
	case store.Lost:
		if u.Silent {
			break // a repeated release leaves no trace in the history, so it cannot be recognized once the row was claimed again
		}
		if u.lease != nil && u.lease.Failed() {
			break // by its own report, which has counted it
		}
		if u.lease != nil && u.lease.Completed() {
			u.Outcome.Verdict = task.Succeeded
			s.countEnd(u)
			break
		}
		s.e.o.Metrics.StaleSettlements.Inc()
		if u.lease != nil {
			s.e.keeper.CountLost(u.lease)
		}
		s.e.log.Warn("outcome refused: another has taken the row",
			append([]any{"task", u.ID, "fence", u.Fence, "outcome", u.Outcome.Verdict}, s.e.traceArgs(u.row(), u.RanFence, u.Phase)...)...)
	case store.Applied, store.Ended:
		s.countEnd(u)
		if u.Next.State.Waiting() && !u.Next.AfterLease && u.Next.Delay < s.e.declarations().Poll {
			s.e.wake.by(s.e.o.Clock.Now() + max(u.Next.Delay, time.Millisecond))
		}
		if u.Next.State == task.StateRollbackFailed {
			s.rollbackFailed(u)
		}
	}
	if u.span != nil {
		s.e.traceSettled(u, a)
	}
	s.drop(u)
	if u.done != nil {
		u.done <- a
	}
	return true
}

// countEnd counts the end of an attempt that the store has taken. A refused one is not counted: the agent that took the row counts the attempt
// as lost.
func (s *settler) countEnd(u *unsettled) {
	switch v := u.Outcome.Verdict; {
	case u.meters != nil:
		phase := u.Phase
		if u.Outcome.InCheck {
			phase = task.Check
		}
		u.meters.count(phase, v)
	case u.reaped != nil && !u.unleased:
		s.e.endedElsewhere(u.row(), v)
	}
}

// rollbackFailed logs an error: a task is half done, and stays so until an operator acts.
func (s *settler) rollbackFailed(u *unsettled) {
	row := u.row()
	typ := row.Type
	if d, ok := s.e.declarations().byName[typ]; ok {
		typ = d.typ.Name
	}
	s.e.o.Metrics.RollbacksFailed.WithLabelValues(typ).Inc()
	s.e.log.Error("the rollback of a task has failed for good: the task stays as it is until an operator rolls it back again",
		append([]any{"task", u.ID, "type", row.Type, "fence", u.RanFence, "attempt", u.Attempt, "why", u.Next.Reason},
			s.e.traceArgs(row, u.RanFence, u.Phase)...)...)
}

// row returns the row as it was when it was claimed, for its attempt or to be reaped.
func (u *unsettled) row() *task.Task {
	if u.lease != nil {
		return u.lease.Task()
	}
	return &u.reaped.Task
}

// decideAgain repeats the decision for a row whose cancellation was requested in the meantime, or that cannot be split.
func (s *settler) decideAgain(u *unsettled, cancelled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= u.bytes()
	u.Outcome.Split = nil
	if u.lease != nil {
		if cancelled {
			u.lease.NoteCancel()
		}
		u.Settlement = s.e.decide(u.lease, u.Outcome)
	} else {
		u.reaped.CancelRequested = u.reaped.CancelRequested || cancelled
		u.Settlement = reapSettlement(u.reaped, u.policy, u.Outcome, u.Silent)
	}
	s.bytes += u.bytes()
}

// drop forgets an outcome that is settled, or refused.
func (s *settler) drop(u *unsettled) {
	if u.lease != nil {
		s.e.keeper.Release(u.lease)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.unleased && s.unleased[u.ID] == u.Fence {
		delete(s.unleased, u.ID)
	}
	s.waiting--
	if u.reaped != nil && !u.unleased {
		s.reaped--
	}
	s.bytes -= u.bytes()
	s.e.o.Metrics.Buffered.Set(float64(s.waiting))
}
