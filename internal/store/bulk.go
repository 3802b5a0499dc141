package store

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Bulk is a change of all tasks that match a filter. It looks at tasks by rising ids, up to a bound that was set when it was requested, and
// changes each at most once: one that fails again is not met again. Agents carry it out in steps.
type Bulk struct {
	ID      int64
	Version int64 // rises with each step that is applied, and when it is stopped
	BulkRequest

	RequestedAt time.Time
	From, UpTo  task.ID // the tasks with ids above From, up to UpTo
	BulkProgress

	Done    int64 // tasks that it changed
	Skipped int64 // tasks that other transactions kept locked until it ended
	Stopped bool  // an operator has stopped it
	Foreign bool  // its filter has parts that this version does not know: it is left to others
	EndedAt *time.Time
}

// BulkProgress is how far a bulk change is.
type BulkProgress struct {
	After   task.ID   // the task that was looked at last
	Again   []task.ID // tasks up to After that were locked, or changed meanwhile: they are looked at again after the last one. At most BulkAgain
	Looked  int64     // tasks that were looked at
	Refused int64     // tasks that match and could not be changed
}

// Bounds of bulk changes.
const (
	BulkAgain    = 1000             // tasks that are looked at again
	BulkPatience = 30 * time.Second // how long after the last one
	BulkLooked   = 1000             // tasks of one look
	BulkError    = 1024             // characters of an error that a look returns
)

// BulkRequest asks for a bulk change.
type BulkRequest struct {
	Verb   string
	Filter BulkFilter
	By     string // who requests it; "": not given
	Reason string
}

// BulkFilter says which tasks a bulk change is for. Zero values match everything. It is stored as JSON.
type BulkFilter struct {
	Type      string            `json:"type,omitempty"`
	States    []task.State      `json:"states,omitempty"` // some of BulkStates; empty: all of them
	Labels    map[string]string `json:"labels,omitempty"` // all must match
	Batch     task.BatchID      `json:"batch,omitempty"`
	Signature string            `json:"error_signature,omitempty"` // of the error, as ops.Signature returns it
	Since     *time.Time        `json:"since,omitempty"`           // finished tasks: that finished since then; live ones: that were inserted since then
}

// Empty reports whether the filter matches all tasks that the verb can change.
func (f *BulkFilter) Empty() bool {
	return f.Type == "" && len(f.States) == 0 && len(f.Labels) == 0 && f.Batch == 0 && f.Signature == "" && f.Since == nil
}

// ReadFilter reads the filter as it is stored. One that it cannot read whole makes the change Foreign: a filter without a part of it would match
// more tasks.
func (b *Bulk) ReadFilter(text []byte) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	b.Filter = BulkFilter{}
	b.Foreign = d.Decode(&b.Filter) != nil
}

// BulkStates returns the states of tasks that a verb can change: those of a single task. It is nil for what is no verb.
func BulkStates(verb string) []task.State {
	switch verb {
	case VerbCancel:
		return []task.State{task.StatePending, task.StateRetryPending, task.StateRunning}
	case VerbRetry:
		return []task.State{task.StateFailed, task.StateCancelled, task.StateRolledBack}
	case VerbRollback:
		return []task.State{
			task.StatePending, task.StateRetryPending, task.StateRunning, task.StateSucceeded, task.StateFailed, task.StateCancelled,
			task.StateRollbackFailed,
		}
	}
	return nil
}

// StatesFor returns the states of tasks that match, of those that the verb can change.
func (f *BulkFilter) StatesFor(verb string) []task.State {
	if len(f.States) > 0 {
		return f.States
	}
	return BulkStates(verb)
}

// Matches reports whether a task matches, but for the signature of its error.
func (f *BulkFilter) Matches(t *BulkTask) bool {
	if f.Type != "" && f.Type != t.Type || f.Batch != 0 && f.Batch != t.Batch || len(f.States) > 0 && !slices.Contains(f.States, t.State) {
		return false
	}
	if f.Since != nil {
		at := t.Created
		if !t.Finished.IsZero() {
			at = t.Finished
		}
		if at.Before(*f.Since) {
			return false
		}
	}
	if len(f.Labels) == 0 {
		return true
	}
	var labels map[string]any
	if json.Unmarshal(t.Labels, &labels) != nil { // an application has written past the checks
		return false
	}
	for name, value := range f.Labels {
		if labels[name] != value {
			return false
		}
	}
	return true
}

// BulkLook asks for tasks, by rising ids, or by falling ones.
type BulkLook struct {
	After, UpTo task.ID   // ids above After, up to UpTo
	Of          []task.ID // if it is not nil: these, instead
	Limit       int       // > 0
	Newest      bool      // by falling ids; not with Of
	Live        bool      // those that have not finished
	Finished    bool      // those that have, and
	Succeeded   bool      // those of them that succeeded, too
	Type        string    // "" or: others may be left out
	Labels      bool      // with their labels
	Errors      bool      // with BulkError characters of their errors
}

// BulkCount is how many tasks a bulk change would be for, as far as was looked.
type BulkCount struct {
	Tasks  int64
	All    bool      // those are all
	Back   task.ID   // the oldest task that was looked at; 0: there was none
	BackTo time.Time // when it was inserted
}

// BulkTask is what the decisions about a task follow from.
type BulkTask struct {
	BatchTask

	Type      string
	Batch     task.BatchID
	Labels    json.RawMessage
	Error     string
	Created   time.Time
	Cancelled bool // it runs, and is asked to stop
	Awaited   bool // it is to be rolled back once it has ended
	Follower  bool
}

// BulkStep is a part of a bulk change. A store applies it where the change has that version still, and to those tasks whose fence and state
// are what they were; locked tasks are left out, never waited for.
type BulkStep struct {
	Bulk     *Bulk        // as it was
	Progress BulkProgress // as it is after the step; Refused and Again grow by what the step meets
	Passed   bool         // After has reached the end: the change ends where nothing is to be looked at again, or it has been for BulkPatience

	Followers []BulkTask     // to be cancelled, before all others
	Cancel    []Cancellation // waiting
	Ask       []BulkTask     // running: to be asked to stop and, of a rollback, to be rolled back then
	Revive    []BulkTask     // finished
}

// Changes is how many tasks the step is to change.
func (s *BulkStep) Changes() int {
	return len(s.Followers) + len(s.Cancel) + len(s.Ask) + len(s.Revive)
}

// BulkResult is what became of a BulkStep.
type BulkResult struct {
	Applied bool      // false: another agent carries the change on, or it has ended; nothing has changed
	Rows    int       // tasks that were changed
	Refused int64     // tasks that stay: another live task has their key, or their batch or they are being rolled back or cancelled
	Missed  []task.ID // tasks that were locked, or had changed
	Ended   bool
}
