package store

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// TaskInfo is a task as the store has it for operators. Its documents are not masked: see ops.Task.
type TaskInfo struct {
	ID                task.ID         `json:"id"`
	Type              string          `json:"type"`
	State             task.State      `json:"state"`
	Priority          int             `json:"priority"`
	Region            string          `json:"region,omitempty"`
	Key               string          `json:"key,omitempty"`
	Labels            json.RawMessage `json:"labels,omitempty"`
	Payload           json.RawMessage `json:"payload"`
	Result            json.RawMessage `json:"result,omitempty"`
	Error             string          `json:"error,omitempty"`
	Outcome           task.Verdict    `json:"outcome,omitempty"` // of the last attempt
	Attempt           int             `json:"attempt"`
	MaxAttempts       int             `json:"max_attempts,omitempty"` // the row's own; 0: the policy's
	Deferrals         int             `json:"deferrals"`
	EverStarted       bool            `json:"ever_started"`
	Fence             task.Fence      `json:"fence"`
	Session           task.Session    `json:"session,omitempty"` // that holds it, or that its last attempt ran in
	Agent             string          `json:"agent,omitempty"`   // name of the session's agent, while that is known
	CreatedBy         string          `json:"created_by,omitempty"`
	Traceparent       string          `json:"traceparent,omitempty"`
	CreatedAt         time.Time       `json:"created_at"`
	RunAt             time.Time       `json:"run_at"`
	ClaimedAt         *time.Time      `json:"claimed_at,omitempty"`
	LeaseEnd          *time.Time      `json:"lease_until,omitempty"`
	Deadline          *time.Time      `json:"deadline,omitempty"`
	FinishedAt        *time.Time      `json:"finished_at,omitempty"`
	Output            string          `json:"output,omitempty"`
	Progress          json.RawMessage `json:"progress,omitempty"`            // what the task said last, of this or an earlier attempt
	Message           string          `json:"message,omitempty"`             // the same, human-readable
	Checkpoint        json.RawMessage `json:"checkpoint,omitempty"`          // what the next attempt is handed
	CancelRequested   *time.Time      `json:"cancel_requested_at,omitempty"` // when its cancellation was requested while it ran
	CancelRequestedBy string          `json:"cancel_requested_by,omitempty"` // who requested it or why, where that is known
	Detached          bool            `json:"detached,omitempty"`            // it runs without a connection to an agent, on its window alone
	Batch             task.BatchID    `json:"batch,omitempty"`
	Lock              string          `json:"lock,omitempty"`     // tasks with the same one never run at once
	Spilled           bool            `json:"spilled,omitempty"`  // it had waited too long for its region (spill_after): any agent may take it, or has
	Sequence          string          `json:"sequence,omitempty"` // tasks of the type with the same one run one after another
	Tenant            string          `json:"tenant,omitempty"`
	Held              task.Hold       `json:"held,omitempty"`  // what it waits for, as far as an agent has found out
	Round             int             `json:"round,omitempty"` // how many operator's retries so far
	// RollbackPayload is what its rollback is given instead of the payload; Cause, why it is or was rolled back.
	RollbackPayload json.RawMessage `json:"rollback_payload,omitempty"`
	Cause           task.Verdict    `json:"cause,omitempty"`
	// Follows is the live task of the same type and key that a follower waits for: it becomes a task of its own once that one has
	// ended for good. 0: this is no follower.
	Follows task.ID `json:"follows,omitempty"`
	// FollowedBy is the follower of a live task: only Get reads it.
	FollowedBy task.ID `json:"followed_by,omitempty"`
	// FailedTask is the task for whose failure this one was inserted (on_failed). 0: it was not.
	FailedTask task.ID       `json:"failed_task,omitempty"`
	History    []AttemptInfo `json:"history,omitempty"` // oldest first
	// NotJSON: a document of it is not JSON, and stands here as a string with its text. Only SQLite keeps such a thing, where an application has
	// written past the checks.
	NotJSON bool `json:"-"`
	// Related are the tasks that it was to wait for, and those that wait for it; nil: there are none. Only Get reads it.
	Related *Related `json:"related,omitempty"`
}

// errUnmasked is the error of showing a task with members that its type may redact.
var errUnmasked = errors.New("a store.TaskInfo is not for people: show an ops.Task")

// MarshalJSON refuses: package ops has the tasks that may be shown.
func (TaskInfo) MarshalJSON() ([]byte, error) { return nil, errUnmasked }

// AttemptInfo is one row of the history.
type AttemptInfo struct {
	Fence     task.Fence      `json:"fence"`                   // that the task saw
	Session   task.Session    `json:"session"`                 // that it ran in
	Agent     string          `json:"agent,omitempty"`         // name of the session's agent, while that is known
	Policy    task.PolicyHash `json:"policy,omitempty,string"` // that it began with; 0: of a row that no agent can run
	Phase     task.Phase      `json:"phase"`
	Attempt   int             `json:"attempt"`
	Outcome   task.Verdict    `json:"outcome"`
	Error     string          `json:"error,omitempty"`
	Output    string          `json:"output,omitempty"`
	State     task.State      `json:"state"` // what the row became
	StartedAt *time.Time      `json:"started_at,omitempty"`
	EndedAt   time.Time       `json:"ended_at"`
	Result    json.RawMessage `json:"result,omitempty"`
	// ReapedSession is the session that settled it, where that is another, and ReapedBy the name of its agent, while that is known.
	ReapedSession task.Session `json:"reaped_session,omitempty"`
	ReapedBy      string       `json:"reaped_by,omitempty"`
}

// TaskFilter narrows a List. Zero values match everything.
type TaskFilter struct {
	Type   string
	States []task.State
	Key    string
	Labels map[string]string // all must match
	Batch  task.BatchID      // 0: of any, and of none
	Limit  int               // PageSize
	Before task.ID           // only tasks with a lower id: the next page
	Window Window            // the zero value: all of them
}

// Window is a part of the tasks, by their ids, that a list looks through at once. It ends before TaskFilter.Before.
type Window struct {
	From task.ID // only tasks with this id or a higher one
	// Few: an index finds the live tasks that the filter is for, whatever their ids, and they are few.
	Few bool
	// Many: so many finished tasks have the filter's key, or are of its batch, that they are not sorted, but looked through by their ids.
	Many bool
	// Span bounds the ids of the tasks of the filter's batch; the zero value: it is not known, or not needed.
	Span Span
	// ByType: of the finished tasks, fewer have the type than have not succeeded. It is set where the filter is for both.
	ByType bool
}

// Span is a range of ids; the zero value: all of them.
type Span struct {
	First, Last task.ID // both included
}

// Within narrows a filter to a span.
func (s Span) Within(f TaskFilter) TaskFilter {
	f.Window.From = max(f.Window.From, s.First)
	if s.Last != 0 && (f.Before == 0 || s.Last < f.Before) {
		f.Before = s.Last + 1
	}
	return f
}

// PageSize returns how many entries a list has at most for the Limit of its filter: 1 to 1000; 50 where it is 0 or less.
func PageSize(limit int) int {
	if limit <= 0 {
		return 50
	}
	return min(limit, 1000)
}

// Stats is the store at a glance.
type Stats struct {
	Waiting       []TypeCount      // rows of the hot table by type and state
	Due           map[string]int64 // rows that are due and may start, but for what limits say, by type: none that waits for a lock, its turn or others
	OldestDue     map[string]time.Duration
	Orphans       map[string]int64 // waiting rows of types that no present agent with workers declares
	AgentsPresent int              // with workers: an observer claims nothing, and does not count
	// BatchTasks counts the tasks of batches that have not ended: waiting, running, rolling_back, succeeded, failed, cancelled,
	// rolled_back, rollback_failed, as BatchInfo does. What is 0 may be missing.
	BatchTasks map[string]int64
	// More: Counts has not looked at all rows, so counts are lower bounds, and rows may have been due for longer.
	More bool
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
	More  bool // there are more
}
