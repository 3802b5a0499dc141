// Package task is the domain of Leasehold: tasks, types, policies and states, the outcomes of attempts, and Decide, which
// turns the outcome of an attempt into the next state of its row. The package is pure: it does no I/O, reads no clock and knows
// no SQL, so that every rule about retries, rollbacks, cancellations and deadlines can be tested as a table.
package task

import (
	"bytes"
	"encoding/json"
	"time"
)

// ID names a task: the primary key of its row, positive, never used again.
type ID int64

// Fence numbers the holds on one row. It rises on every claim and on every release and is never reset, so of two
// attempts of a row the one with the higher fence is the later one.
type Fence int64

// BatchID names a batch, positive. Zero is none.
type BatchID int64

// Session numbers one start of an agent; no two starts share a number. Zero is no session.
type Session int64

// PolicyHash identifies a stored Policy by its content.
type PolicyHash int64

// Phase is the purpose of an attempt.
type Phase string

// The phases of a task.
const (
	Check    Phase = "check"
	Run      Phase = "run"
	Rollback Phase = "rollback"
)

// Hold is what a waiting row is held back for, so that no claim looks at it; "" is nothing.
type Hold string

// What rows are held back for.
const (
	HoldLock     Hold = "lock"     // until its lock is free
	HoldSequence Hold = "sequence" // until its turn in its sequence comes
	HoldAfter    Hold = "after"    // until the tasks have ended that it names
)

// Task is a row as an attempt sees it: what a claim returned. Times are the store's clock.
type Task struct {
	ID    ID
	Type  string // as in the row; a declared alias keeps its own name here
	State State  // StateRunning or StateRollbackRunning once claimed
	Fence Fence

	Attempt         int  // attempts of this phase that count, this one included; from 1
	MaxAttempts     int  // the row's own limit on attempts of the run phase; 0: the policy's
	Deferrals       int  // how often in a row it was deferred, superseded, or drained within moments of its start
	Round           int  // how often an operator has retried it
	EverStarted     bool // an earlier attempt was started, whatever Attempt is
	CancelRequested bool // a cancellation was requested while it ran

	Payload     json.RawMessage // never nil; `{}` by default
	Result      json.RawMessage // nil: none
	Labels      json.RawMessage // nil: none; else an object of strings
	Checkpoint  json.RawMessage // nil: none; kept from the attempts before
	Key         string          // "" for none
	Region      string          // "" for none
	Spilled     bool            // it had waited too long for agents of its region (Type.SpillAfter), so that any agent could claim it
	Priority    int             // -10..10, higher first
	Traceparent string          // "" for none
	CreatedBy   string          // "" for none
	Batch       BatchID         // 0 for none
	Lock        string          // rows with the same one never run at once; "" for none
	Sequence    string          // rows of the type with the same one run one after another; "" for none
	Tenant      string          // whose turns the row takes; "" for none
	HasAfter    bool            // it names tasks that it has waited for; a run gets to know them (After)
	Previous    *Previous       // how the attempt before ended; nil on the first

	// What a rollback is given. RollbackPayload is nil if the row has none; Cause is how the runs of the task ended, "" in a
	// run.
	RollbackPayload json.RawMessage
	Cause           Verdict

	// Unfit is the reason for which no agent can run the row, such as a payload that is too large; "" for nearly all rows. The
	// row's documents are left out then.
	Unfit string

	Policy    PolicyHash // the policy this attempt started with
	CreatedAt time.Time
	RunAt     time.Time // when it was due
	ClaimedAt time.Time // the store's clock when this claim was made
	LeaseEnd  time.Time // when the lease of this claim expires unless it is renewed
	Deadline  time.Time // when the task must be done, all attempts together; zero: never
}

// Previous is how the attempt before this one ended.
type Previous struct {
	Outcome Verdict `json:"outcome"`
	Error   string  `json:"error,omitempty"`
}

// Phase returns the phase that a claimed task was claimed for: Rollback or Run.
func (t *Task) Phase() Phase { return t.State.Phase() }

// Data returns what an attempt works on, in the envelope and in templates: the payload. In a rollback that is the row's
// RollbackPayload, the state before the change; if it has none, the object that the run's result has under "rollback"; and
// else the payload.
func (t *Task) Data() json.RawMessage {
	if t.Phase() != Rollback {
		return t.Payload
	}
	if t.RollbackPayload != nil {
		return t.RollbackPayload
	}
	var result map[string]json.RawMessage // names are exact, as in JSON everywhere else
	if json.Unmarshal(t.Result, &result) == nil && bytes.HasPrefix(result["rollback"], []byte("{")) {
		return result["rollback"]
	}
	return t.Payload
}
