package store

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Verbs of operations.
const (
	VerbCancel   = "cancel"
	VerbRetry    = "retry"
	VerbRollback = "rollback"
)

// Operation is a change of a batch, or of one task that ran when it was requested. Agents carry it out in steps.
type Operation struct {
	ID      int64
	Version int64 // rises with each step that is applied
	Verb    string
	Batch   task.BatchID // of the task, where it is about one; 0: that belongs to none
	Task    task.ID      // 0: it is about the batch

	RequestedAt time.Time
	RequestedBy string
	Done        int64 // tasks that it changed
	Progress
}

// Progress is how far an operation is.
type Progress struct {
	Stopped bool   // nothing of the batch waits or runs any more; of a rollback, finished tasks come next
	Missed  bool   // a finished task behind the cursor was locked, or had changed: another pass is needed
	After   Cursor // the task that was looked at last
	Goal    int64  // of a rollback: tasks of the batch when it came to those that had finished
	Taken   int64  // of a rollback: finished tasks that it has chosen, in all passes
	Refused int64  // tasks that it could not change, in this pass
}

// Cursor is a place in the order of a batch's tasks; the zero value is before the first.
type Cursor struct {
	ID task.ID
	At time.Time // when it started, where tasks come in that order; zero: never, or the order is that of ids
}

// BatchTask is what the decisions about a task of a batch follow from.
type BatchTask struct {
	ID           task.ID
	Fence        task.Fence
	State        task.State
	Cause        task.Verdict // why it was rolled back
	EverStarted  bool
	Started      time.Time // the last attempt; zero: none
	Finished     time.Time // zero: it has not
	OwnRollback  bool      // the policy that its last attempt started with has a rollback
	TypeRollback bool      // some policy of its type has one
}

// Unstopped are tasks of a batch that run or wait to run.
type Unstopped struct {
	Running []BatchTask // no cancel is pending for these
	Waiting []BatchTask // behind a cursor, by id
	Left    int64       // all that run or wait to run
	Total   int64       // tasks of the batch
}

// Step is a part of an operation. A store applies it where the operation has that version still, and to those tasks whose
// fence and state are what they were; locked tasks are left out, never waited for.
type Step struct {
	Operation *Operation // as it was
	Progress  Progress   // as it is after the step; Missed and Refused rise by what the step meets

	By     string         // who requested that tasks are cancelled; "": unknown
	Ask    []BatchTask    // running: to be asked to stop
	Cancel []Cancellation // waiting
	Revive []Revival      // finished

	Reopens bool // the batch is reopened if a task was revived
	// Stops marks the operation as stopped, if after the step nothing of the batch waits or runs, and no open transaction
	// inserts into it.
	Stops bool
	// Ends ends the operation, if all of the step was applied or refused and, where it Stops, that holds.
	Ends bool
}

// Cancellation is a waiting task to cancel.
type Cancellation struct {
	BatchTask
	RollBack bool // it is to be rolled back
}

// Revival is a finished task to revive.
type Revival struct {
	BatchTask
	Due time.Time // zero: now
}

// StepResult is what became of a Step.
type StepResult struct {
	Applied bool  // false: another agent carries the operation on, or its batch is locked; nothing has changed
	Rows    int   // tasks that were changed
	Refused int64 // tasks that stay, because another live task has their key
	Missed  bool  // a task to revive was locked, or had changed
	Stopped bool
	Ended   bool
}
