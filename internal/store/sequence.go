package store

import (
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// ErrNoSequence says that there is no such sequence.
var ErrNoSequence = errors.New("no such sequence")

// TypeSequence is what a configuration declares of the sequences of a row type. One that was never loaded before is newer than all others
// of the type, and the newest one that a present session declares is in force. What no present session declares stays in force until
// a session that knows the type is present.
type TypeSequence struct {
	Type      string // of the rows
	OnFailure string // task.SequenceBlocks or task.SequenceContinues
}

// SequenceState is what a sequence does.
type SequenceState string

// The states of sequences.
const (
	SequenceRunning SequenceState = "running" // an attempt of its head runs
	SequenceWaiting SequenceState = "waiting" // its head waits to start, or to start again
	SequenceBlocked SequenceState = "blocked" // a failure has to be resolved
)

// SequenceInfo is a sequence of a type, as operators see it.
type SequenceInfo struct {
	Type     string        `json:"type"`
	Sequence string        `json:"sequence"`
	State    SequenceState `json:"state"`
	Task     task.ID       `json:"task_id"`            // whose turn it is, or whose failure blocks the sequence
	Waiting  int           `json:"waiting"`            // rows behind it
	Capped   bool          `json:"capped,omitempty"`   // there are more rows or failures than were counted
	Since    time.Time     `json:"since"`              // when Task was claimed, is due, or has failed
	Failures int           `json:"failures,omitempty"` // that are not resolved
}

// SequenceFilter selects sequences, in the order of their types and names.
type SequenceFilter struct {
	Type, Name         string // "": all; Name only with Type
	FromType, FromName string // where to begin
	Limit              int    // as of PageSize
}

// Count says how many rows of the sequence are live, of which no more than most count, and how many failures it has.
func (i *SequenceInfo) Count(live, failures, most int) {
	i.Waiting, i.Failures = live, min(failures, most)
	if i.State != SequenceBlocked {
		i.Waiting--
	}
	i.Capped = i.Waiting > most || failures > most
	i.Waiting = min(i.Waiting, most)
}

// SequenceList is a page of sequences.
type SequenceList struct {
	Now  time.Time
	List []SequenceInfo
}
