package store

import (
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/internal/task"
)

// MaxAfter is how many tasks one may wait for.
const MaxAfter = 100_000

// Values of after_if: how the tasks have to end that one waits for.
const (
	AfterIfSucceeded = "succeeded" // else it is cancelled
	AfterIfAny       = "any"
)

// checkAfter refuses what a task cannot wait for.
func (r *EnqueueRequest) checkAfter(wrong func(string, ...any) error) error {
	switch {
	case len(r.After) > MaxAfter:
		return wrong("after has %d tasks: one can wait for %d at most; put a task between that waits for a part of them", len(r.After), MaxAfter)
	case slices.ContainsFunc(r.After, func(id task.ID) bool { return id <= 0 }):
		return wrong("after: a task's number is 1 or more")
	case r.AfterIf != "" && r.AfterIf != AfterIfSucceeded && r.AfterIf != AfterIfAny:
		return wrong("after-if %q: use %s or %s", r.AfterIf, AfterIfSucceeded, AfterIfAny)
	case r.AfterIf != "" && len(r.After) == 0:
		return wrong("after-if says how the tasks of after have to end: say which they are")
	}
	return nil
}

// Unblocked is what a step of the work on rows that wait for others has done.
type Unblocked struct {
	Freed     int  // rows that may be claimed from now on
	Cancelled int  // rows that ended, because one that they waited for did not succeed
	Worked    int  // rows and notes with which it has come further; 0: there is nothing to do, or Missed
	Missed    bool // others are at work on what is left: ask again in a moment
	Waiting   bool // rows wait for others, so an end of any row may matter
}

// MostNeighbours is how many tasks of each kind Related lists.
const MostNeighbours = 100

// Related are the tasks that one waits for, or has waited for, and those that wait for it. Of each there are MostNeighbours at most, by id.
type Related struct {
	After        []Neighbour `json:"after,omitempty"`
	AfterTotal   int         `json:"after_total,omitempty"`
	AfterIf      string      `json:"after_if,omitempty"`      // how they have to end
	CancelledFor task.ID     `json:"cancelled_for,omitempty"` // of these, the one on account of which it was cancelled
	Waiting      []Neighbour `json:"waiting,omitempty"`       // for it to end, as far as agents have seen
	WaitingTotal int         `json:"waiting_total,omitempty"`
}

// Neighbour is a task that another one names, or is named by.
type Neighbour struct {
	ID    task.ID    `json:"id"`
	Type  string     `json:"type,omitempty"` // "": it is past its retention
	State task.State `json:"state,omitempty"`
}

// None reports whether there is nothing to say.
func (r *Related) None() bool { return r.AfterTotal == 0 && r.WaitingTotal == 0 }

// Add adds a neighbour.
func (r *Related) Add(waits bool, n Neighbour) {
	if waits {
		r.Waiting = append(r.Waiting, n)
	} else {
		r.After = append(r.After, n)
	}
}

// WhyCancelled is the reason for which a task is cancelled that waited for another, which ended in that state; "": it is past its
// retention. The function decide_dependents of PostgreSQL says the same.
func WhyCancelled(of task.ID, state task.State) string {
	how := map[task.State]string{
		"": "is past its retention", task.StateFailed: "failed", task.StateCancelled: "was cancelled",
		task.StateRolledBack: "was rolled back", task.StateSplit: "was split", task.StateRollbackFailed: "could not be rolled back",
	}
	return fmt.Sprintf("task %d %s", of, how[state])
}
