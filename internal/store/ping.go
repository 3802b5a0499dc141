package store

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Limits on what a ping carries.
const (
	MaxProgress   = 1 << 10  // bytes of JSON
	MaxMessage    = 4 << 10  // bytes; longer ones are cut
	MaxCheckpoint = 64 << 10 // bytes of JSON
)

// Ping is one progress report of a task. The zero value is a bare ping.
type Ping struct {
	// Progress is JSON: a number from 0 to 1, an object of done and total, or a string that names a position; compact, at
	// most MaxProgress bytes. nil: none.
	Progress   json.RawMessage
	Message    string          // human-readable; "": none
	Checkpoint json.RawMessage // compact JSON, at most MaxCheckpoint bytes, for the next attempt; nil: none
	NextWithin time.Duration   // asks for a longer window once; 0: no
}

// Report is what a task has reported and the store does not know yet. An empty field leaves the row's as it is.
type Report struct {
	Progress   json.RawMessage
	Message    string
	Checkpoint json.RawMessage
}

// Empty reports whether there is nothing to write.
func (n Report) Empty() bool { return n.Progress == nil && n.Message == "" && n.Checkpoint == nil }

// PingReply is the reply to a ping.
type PingReply struct {
	Answer    Answer        // Applied: the attempt holds its row; Lost: it does not; Busy: unknown now, repeat the ping
	Counted   bool          // the lease was renewed, or has no window to renew
	Cancel    bool          // the task is to stop soon
	Reason    string        // why the ping did not count, or why to stop; "" for neither
	Remaining time.Duration // how long this attempt may still take
}

// RemotePing is a ping for a row that another session holds, or held when it was detached.
type RemotePing struct {
	ID    task.ID
	Fence task.Fence
	Ping
}

// Over is n written over older ones.
func (n Report) Over(older Report) Report {
	if n.Progress == nil {
		n.Progress = older.Progress
	}
	if n.Checkpoint == nil {
		n.Checkpoint = older.Checkpoint
	}
	n.Message = cmp.Or(n.Message, older.Message)
	return n
}

// Over is p, with what it does not say taken from an older one.
func (p Ping) Over(older Ping) Ping {
	n := Report{p.Progress, p.Message, p.Checkpoint}.Over(Report{older.Progress, older.Message, older.Checkpoint})
	p.Progress, p.Message, p.Checkpoint = n.Progress, n.Message, n.Checkpoint
	p.NextWithin = max(p.NextWithin, older.NextWithin)
	return p
}
