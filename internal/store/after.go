package store

import (
	"fmt"
	"slices"
	"strings"

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
	case len(r.After)+len(r.AfterRefs) > MaxAfter:
		return wrong("after has %d tasks: one can wait for %d at most; put a task between that waits for a part of them",
			len(r.After)+len(r.AfterRefs), MaxAfter)
	case slices.ContainsFunc(r.After, func(id task.ID) bool { return id <= 0 }):
		return wrong("after: a task's number is 1 or more")
	case r.AfterIf != "" && r.AfterIf != AfterIfSucceeded && r.AfterIf != AfterIfAny:
		return wrong("after-if %q: use %s or %s", r.AfterIf, AfterIfSucceeded, AfterIfAny)
	case r.AfterIf != "" && len(r.After)+len(r.AfterRefs) == 0:
		return wrong("after-if says how the tasks of after have to end: say which they are")
	}
	return nil
}

// Unblocked is what a step of the work on rows that wait for others has done.
type Unblocked struct {
	Freed     int  // rows that may be claimed from now on
	Cancelled int  // rows that ended, because one that they waited for did not succeed
	Revived   int  // rows that had been cancelled for that, and wait again, because that one was retried
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
	// Tasks that were cancelled on account of it. A retry of it revives them, too.
	Cancelled      []Neighbour `json:"cancelled,omitempty"`
	CancelledTotal int         `json:"cancelled_total,omitempty"`
}

// Neighbour is a task that another one names, or is named by.
type Neighbour struct {
	ID    task.ID    `json:"id"`
	Type  string     `json:"type,omitempty"` // "": it is past its retention
	State task.State `json:"state,omitempty"`
	// Barred is why a task that was cancelled on account of another cannot be revived with that one now: "task 7 is live with its key".
	Barred string `json:"barred,omitempty"`
}

// None reports whether there is nothing to say.
func (r *Related) None() bool {
	return r.AfterTotal == 0 && r.WaitingTotal == 0 && r.CancelledTotal == 0
}

// Kinds of neighbours.
const (
	IsAfter     = iota // it is waited for
	IsWaiting          // it waits
	IsCancelled        // it was cancelled
)

// Add adds a neighbour of a kind.
func (r *Related) Add(kind int, n Neighbour) {
	switch kind {
	case IsAfter:
		r.After = append(r.After, n)
	case IsWaiting:
		r.Waiting = append(r.Waiting, n)
	case IsCancelled:
		r.Cancelled = append(r.Cancelled, n)
	}
}

// NotRevived precedes the reason in the error of a task that was not revived with the one on account of which it was cancelled.
const NotRevived = "; not retried with it: "

// NotRevivedError is the error of such a task, which has one already.
func NotRevivedError(before, why string) string {
	cause, _, _ := strings.Cut(before, NotRevived)
	return cause + NotRevived + why
}

// Why a task is not revived with another. The stores' shared/revival_barred.sql say the same.

// BarredByKey is the reason where that task is live with its key.
func BarredByKey(live task.ID) string { return fmt.Sprintf("task %d is live with its key", live) }

// BarredByBatch is the reason where its batch has ended, or where what was requested of it is under way.
func BarredByBatch(id task.BatchID, ended bool, requested string) string {
	if ended {
		return fmt.Sprintf("batch %d has ended", id)
	}
	return fmt.Sprintf("a %s of batch %d is under way", requested, id)
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
