package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// What verbs answer beside states of batches.
const (
	BatchSealed   = "sealed"
	BatchRetrying = "retrying"
)

// BatchState is where a batch stands: derived from its tasks.
type BatchState string

// The states of a batch.
const (
	BatchPending         BatchState = "pending"          // nothing of it has started
	BatchRunning         BatchState = "running"          // some of it has
	BatchSucceeded       BatchState = "succeeded"        // every task
	BatchFailed          BatchState = "failed"           // some failed, and none succeeded
	BatchPartiallyFailed BatchState = "partially_failed" // some failed, and some succeeded
	BatchCancelled       BatchState = "cancelled"        // cancelled before all was done
	BatchRollingBack     BatchState = "rolling_back"     // being rolled back
	BatchRolledBack      BatchState = "rolled_back"      // rolled back
	BatchRollbackFailed  BatchState = "rollback_failed"  // a rollback failed
)

// BatchStates lists every state of a batch.
func BatchStates() []BatchState {
	return []BatchState{
		BatchPending, BatchRunning, BatchSucceeded, BatchFailed, BatchPartiallyFailed, BatchCancelled,
		BatchRollingBack, BatchRolledBack, BatchRollbackFailed,
	}
}

// Ended reports whether a batch in this state has nothing left to do.
func (s BatchState) Ended() bool {
	return s != BatchPending && s != BatchRunning && s != BatchRollingBack
}

// OnFailure is what becomes of a batch when one of its tasks fails for good.
type OnFailure string

// What may become of it.
const (
	OnFailureContinue OnFailure = "continue" // the others go on
	OnFailureCancel   OnFailure = "cancel"   // the rest is cancelled
	OnFailureRollback OnFailure = "rollback" // and what was started is rolled back
)

// BatchRequest is a batch to create. Zero values are the defaults of the table.
type BatchRequest struct {
	Name          string
	OnFailure     OnFailure // "": continue
	FinishType    string    // "": no row reports the end
	FinishPayload json.RawMessage
	Labels        map[string]string
	CreatedBy     string
	Open          bool // rows may be added until it is sealed
}

// Bounds of a BatchRequest, in bytes.
const (
	MaxName = 255 // its name
	MaxType = 255 // its finish type
)

// Check finds what no store would take, and says it better than a database does; its errors are *InputError.
func (b *BatchRequest) Check() error {
	wrong := func(format string, args ...any) error { return &InputError{Text: fmt.Sprintf(format, args...)} }
	for _, text := range []struct {
		what, s string
		most    int
	}{{"name", b.Name, MaxName}, {"finish type", b.FinishType, MaxType}, {"created_by", b.CreatedBy, MaxBy}} {
		switch {
		case !Storable(text.s):
			return wrong("%s %q: text must be UTF-8 without NUL", text.what, text.s)
		case len(text.s) > text.most:
			return wrong("the %s is %d bytes long: %d at most", text.what, len(text.s), text.most)
		}
	}
	switch b.OnFailure {
	case "", OnFailureContinue, OnFailureCancel, OnFailureRollback:
	default:
		return wrong("on_failure %q: use continue, cancel or rollback", b.OnFailure)
	}
	if err := checkJSON("finish payload", b.FinishPayload, wrong); err != nil {
		return err
	}
	switch {
	case b.FinishPayload != nil && !bytes.HasPrefix(bytes.TrimSpace(b.FinishPayload), []byte("{")):
		return wrong("the finish payload must be a JSON object: the counts are added to it as \"batch\"")
	case b.FinishPayload != nil && b.FinishType == "":
		return wrong("a finish payload without a finish type: there is no row to carry it")
	}
	return checkLabels(b.Labels, wrong)
}

// BatchFailuresRead is how many failures of a batch are read at most.
const BatchFailuresRead = 2000

// BatchInfo is a batch for people to look at.
type BatchInfo struct {
	ID             task.BatchID    `json:"id"`
	Name           string          `json:"name"`
	State          BatchState      `json:"state"`
	OnFailure      OnFailure       `json:"on_failure"`
	Sealed         bool            `json:"sealed"`
	Stopping       bool            `json:"stopping"` // nothing of it starts any more
	Round          int             `json:"round"`    // how often it was opened again
	Total          int64           `json:"total"`
	Live           int64           `json:"live"`
	Waiting        int64           `json:"waiting"`
	Running        int64           `json:"running"`
	RollingBack    int64           `json:"rolling_back"` // waiting to be rolled back, or being so
	Succeeded      int64           `json:"succeeded"`
	Failed         int64           `json:"failed"`
	Cancelled      int64           `json:"cancelled"`
	RolledBack     int64           `json:"rolled_back"`
	RollbackFailed int64           `json:"rollback_failed"`
	Failures       int64           `json:"failures"` // how often a task has failed for good, whatever became of it then
	Progress       *float64        `json:"progress"` // finished of all, 0 to 1; nil: there are none
	FinishType     string          `json:"finish_type,omitempty"`
	Labels         json.RawMessage `json:"labels,omitempty"`
	CreatedBy      string          `json:"created_by,omitempty"`
	CreatedAt      time.Time       `json:"created_at"`
	EndedAt        *time.Time      `json:"ended_at,omitempty"`
	Operation      string          `json:"operation,omitempty"`    // cancel, retry or rollback, while one is carried on
	RequestedBy    string          `json:"requested_by,omitempty"` // who requested its cancellation or rollback
	Refused        int64           `json:"refused,omitempty"`      // rows that the last operation had to leave as they were
}

// BatchFilter narrows a ListBatches. Zero values match everything.
type BatchFilter struct {
	States []BatchState
	Name   string
	Limit  int          // PageSize
	Before task.BatchID // only batches with a lower id: the next page
}

// MaxBy bounds the name of who requests a change, in bytes.
const MaxBy = 512
