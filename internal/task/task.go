// Package task is the domain of Leasehold, pure: what a task, its type and its policy are, which states it passes
// through, and what the end of an attempt means for it (Decide). It does no I/O, reads no clock and knows no SQL.
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

// Phase says what an attempt is for.
type Phase string

// The phases of a task.
const (
	Check    Phase = "check"
	Run      Phase = "run"
	Rollback Phase = "rollback"
)

// Task is a row as an attempt sees it: what a claim returned. Times are the store's clock.
type Task struct {
	ID    ID
	Type  string // as in the row; a declared alias keeps its own name here
	State State  // StateRunning or StateRollbackRunning once claimed
	Fence Fence

	Attempt     int  // attempts of this phase that count, this one included; from 1
	MaxAttempts int  // the row's own limit on attempts of the run phase; 0: the policy's
	Deferrals   int  // how often in a row it has been released by deferred or superseded
	Round       int  // how many operator's retries came before; 0 for most
	EverStarted bool // some earlier attempt was started, whatever Attempt says
	CancelAsked bool // a cancellation was asked for while it ran

	Payload     json.RawMessage // never nil; `{}` by default
	Result      json.RawMessage // nil: none
	Labels      json.RawMessage // nil: none; else an object of strings
	Checkpoint  json.RawMessage // nil: none; kept from the attempts before
	Key         string          // "" for none
	Region      string          // "" for none
	Priority    int             // -10..10, higher first
	Traceparent string          // "" for none
	CreatedBy   string          // "" for none
	Batch       BatchID         // 0 for none
	Previous    *Previous       // how the attempt before ended; nil on the first

	// What a rollback is told. RollbackPayload is nil where the row has none of its own; Cause is how the forward life of the
	// task ended, "" in a run.
	RollbackPayload json.RawMessage
	Cause           Verdict

	// Unfit says why no agent can run a claimed row, as one whose payload is too large; "" for nearly all. Its payload, its
	// result and the like are left out then.
	Unfit string

	Policy    PolicyHash // the policy this attempt started with
	CreatedAt time.Time
	RunAt     time.Time // when it was due
	ClaimedAt time.Time // the store's clock when this claim was made
	LeaseEnd  time.Time // when the lease of this claim runs out unless it is renewed
	Deadline  time.Time // when the task must be done, all attempts together; zero: never
}

// Previous is how the attempt before this one ended.
type Previous struct {
	Outcome Verdict `json:"outcome"`
	Error   string  `json:"error,omitempty"`
}

// Phase tells what a claimed task was claimed for: Rollback or Run.
func (t *Task) Phase() Phase { return t.State.Phase() }

// Data is what an attempt works on, in the envelope and in templates: the payload. In a rollback it is the row's
// RollbackPayload, the state before the change; else the object that the run's result has under "rollback"; else the
// payload.
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
