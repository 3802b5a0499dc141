package ops

import (
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Attempt is an attempt of a task that is over.
type Attempt struct {
	store.AttemptInfo
	Took   time.Duration // from its start to its end; 0 if it never started
	Counts bool          // it used up one of the task's attempts
}

// History returns the attempts of a task that are over, oldest first. A success at the first try is not among them: the task
// itself has all that is known of it.
func History(i *Task) []Attempt {
	all := make([]Attempt, len(i.History))
	for n, h := range i.History {
		all[n] = Attempt{AttemptInfo: h, Counts: counts(i, n)}
		if h.StartedAt != nil {
			all[n].Took = h.EndedAt.Sub(*h.StartedAt)
		}
	}
	return all
}

// RanOn returns the name of the agent that the attempt ran on, and the one that reaped it, if that was another. A name has most
// characters at most.
func (a *Attempt) RanOn(most int) string {
	ran := agentOf(a.Agent, a.Session, most)
	if a.ReapedSession == 0 {
		return ran
	}
	return ran + ", reaped by " + agentOf(a.ReapedBy, a.ReapedSession, most)
}

// agentOf names an agent: by its session where its name is not known any more.
func agentOf(name string, session task.Session, most int) string {
	if name == "" {
		return fmt.Sprintf("session %d", session)
	}
	return OneLine(name, most)
}

// counts reports whether the nth attempt of the history used up one of the task's attempts, as task.Decide has decided. One that
// was released did only where the attempt after it has a higher number. Nothing comes after an attempt that ended its phase, and
// then it makes no difference.
func counts(i *Task, n int) bool {
	h := i.History[n]
	if !h.Outcome.Releases() {
		return true
	}
	if !h.State.Waiting() || h.State.Phase() != h.Phase {
		return false
	}
	if n+1 < len(i.History) {
		after := i.History[n+1]
		return after.Phase == h.Phase && after.Attempt > h.Attempt
	}
	next := i.Attempt + 1 // the number that the next claim would give
	if i.State.Running() || i.State == task.StateSucceeded {
		next = i.Attempt
	}
	return next > h.Attempt
}
