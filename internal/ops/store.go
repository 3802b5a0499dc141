// Package ops is what an operator and a producer do: enqueue tasks, read them, wait for them, change them, and the same for
// batches; with what they then want to know: how many tasks a change affects, how far a batch is, what became of each task.
// Commands, the HTTP API and the dashboard share it; they parse and print.
package ops

import (
	"context"
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Store is what operators' work needs of the store.
type Store interface {
	// Enqueue inserts a row, or finds the live one with the same type and key, and tells which.
	Enqueue(ctx context.Context, r Request) (id task.ID, isNew bool, err error)
	// Get returns a task, live or finished, with its history; ErrNoTask where there is none.
	Get(ctx context.Context, id task.ID) (*Info, error)
	// List returns tasks that match, newest first, without history and output.
	List(ctx context.Context, f Filter) ([]Info, error)
	// Stats counts what waits and runs.
	Stats(ctx context.Context) (Stats, error)
	// Takers counts the present agents that claim tasks, and those of them that claim tasks of a type.
	Takers(ctx context.Context, typ string) (Takers, error)
	// Ping checks that the store can be reached and that its schema admits the binary (*store.SchemaError otherwise).
	Ping(ctx context.Context) error
}

// Request is a task to enqueue. Zero values are the defaults of the table.
type Request struct {
	Type        string
	Payload     json.RawMessage // nil: {}
	RunAt       time.Time       // zero: now, by the store's clock, plus In
	In          time.Duration
	Priority    int
	Key         string
	Region      string
	MaxAttempts int
	Labels      map[string]string
	Traceparent string
	CreatedBy   string
	Batch       task.BatchID // 0: none
	// RollbackPayload is what a rollback is given instead of the payload, as the state before the change; nil: none.
	RollbackPayload json.RawMessage
}

// Info is a task for people to look at.
type Info struct {
	ID          task.ID         `json:"id"`
	Type        string          `json:"type"`
	State       task.State      `json:"state"`
	Priority    int             `json:"priority"`
	Region      string          `json:"region,omitempty"`
	Key         string          `json:"key,omitempty"`
	Labels      json.RawMessage `json:"labels,omitempty"`
	Payload     json.RawMessage `json:"payload"`
	Result      json.RawMessage `json:"result,omitempty"`
	Error       string          `json:"error,omitempty"`
	Outcome     task.Verdict    `json:"outcome,omitempty"` // of the last attempt
	Attempt     int             `json:"attempt"`
	MaxAttempts int             `json:"max_attempts,omitempty"` // the row's own; 0: the policy's
	Deferrals   int             `json:"deferrals"`
	EverStarted bool            `json:"ever_started"`
	Fence       task.Fence      `json:"fence"`
	Session     task.Session    `json:"session,omitempty"`
	Agent       string          `json:"agent,omitempty"` // name of the session's agent, while that is known
	CreatedBy   string          `json:"created_by,omitempty"`
	Traceparent string          `json:"traceparent,omitempty"`
	CreatedAt   time.Time       `json:"created_at"`
	RunAt       time.Time       `json:"run_at"`
	ClaimedAt   *time.Time      `json:"claimed_at,omitempty"`
	LeaseEnd    *time.Time      `json:"lease_until,omitempty"`
	Deadline    *time.Time      `json:"deadline,omitempty"`
	FinishedAt  *time.Time      `json:"finished_at,omitempty"`
	Output      string          `json:"output,omitempty"`
	Progress    json.RawMessage `json:"progress,omitempty"`     // what the task said last, of this or an earlier attempt
	Message     string          `json:"message,omitempty"`      // the same, for people
	Checkpoint  json.RawMessage `json:"checkpoint,omitempty"`   // what the next attempt is handed
	CancelAsked *time.Time      `json:"cancel_asked,omitempty"` // when somebody wanted it cancelled while it ran
	CancelBy    string          `json:"cancel_by,omitempty"`    // who or why, where that was said
	Detached    bool            `json:"detached,omitempty"`     // it runs without a connection to an agent, on its window alone
	Batch       task.BatchID    `json:"batch,omitempty"`
	Round       int             `json:"round,omitempty"` // how many operator's retries so far
	// RollbackPayload is what its rollback is given instead of the payload; Cause, why it is or was rolled back.
	RollbackPayload json.RawMessage `json:"rollback_payload,omitempty"`
	Cause           task.Verdict    `json:"cause,omitempty"`
	History         []Attempt       `json:"history,omitempty"` // oldest first
}

// Attempt is one row of the history.
type Attempt struct {
	Fence     task.Fence      `json:"fence"` // that the task saw
	Session   task.Session    `json:"session"`
	Phase     task.Phase      `json:"phase"`
	Attempt   int             `json:"attempt"`
	Outcome   task.Verdict    `json:"outcome"`
	Error     string          `json:"error,omitempty"`
	Output    string          `json:"output,omitempty"`
	State     task.State      `json:"state"` // what the row became
	StartedAt *time.Time      `json:"started_at,omitempty"`
	EndedAt   time.Time       `json:"ended_at"`
	Result    json.RawMessage `json:"result,omitempty"`
}

// Filter narrows a List. Zero values match everything.
type Filter struct {
	Type   string
	States []task.State
	Key    string
	Labels map[string]string // all must match
	Batch  task.BatchID      // 0: of any, and of none
	Limit  int               // 1..1000; 0: 50
	Before task.ID           // only tasks with a lower id: the next page
}

// Stats is the store at a glance.
type Stats struct {
	Waiting       []TypeCount // rows of the hot table by type and state
	OldestDue     map[string]time.Duration
	Orphans       map[string]int64 // waiting rows of types that no present agent with workers declares
	AgentsPresent int              // with workers: an observer claims nothing, and does not count
	Archived      int64            // an estimate on Postgres
	// BatchTasks counts the tasks of batches that have not ended: waiting, running, undoing, succeeded, failed, cancelled,
	// rolled_back, rollback_failed, as BatchInfo does. What is 0 may be missing.
	BatchTasks map[string]int64
}

// Takers are the present agents that claim tasks: observers (no workers) are not among them.
type Takers struct {
	Agents int
	OfType int // those that declare the type that was asked for
}

// TypeCount counts rows of a type in a state.
type TypeCount struct {
	Type  string
	State task.State
	N     int64
}

// Maintenance is the housekeeping that a store needs now and then; every agent does it, and any may.
type Maintenance interface {
	// Maintain makes room ahead (partitions) and removes what finished more than retention ago, in bounded steps. It
	// returns how many tasks it removed; an estimate where whole partitions went.
	Maintain(ctx context.Context, retention time.Duration) (removed int64, err error)
}
