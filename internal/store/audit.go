package store

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// AuditEntry is one request that changed something: who made it, of what, and what became of it.
type AuditEntry struct {
	ID          int64     `json:"id"`
	At          time.Time `json:"at"`
	RequestedBy string    `json:"requested_by,omitempty"` // as the caller has said
	// Role is the database role of the caller's session; "" on SQLite, which has none.
	Role   string       `json:"role,omitempty"`
	Verb   string       `json:"verb"`
	Answer string       `json:"answer"` // what became of it
	Reason string       `json:"reason,omitempty"`
	Task   task.ID      `json:"task_id,omitempty"` // what it is about is one of these; all are empty for a change of all tasks that match
	Batch  task.BatchID `json:"batch_id,omitempty"`
	Type   string       `json:"type,omitempty"`
	// Schedule and Chunks are names; Agent is a session.
	Schedule string       `json:"schedule,omitempty"`
	Chunks   string       `json:"chunks,omitempty"`
	Agent    task.Session `json:"agent,omitempty"`
}

// AuditFilter selects entries of the audit, newest first. Zero values match everything.
type AuditFilter struct {
	RequestedBy string
	Verb        string
	Type        string // of changes of a whole type
	Task        task.ID
	Batch       task.BatchID
	Since       *time.Time
	Before      int64 // only entries with a lower id: the next page
	Limit       int   // PageSize
	// Look is how many entries are looked at; 0: PageSize of the limit. All entries of the task or else of the batch are looked at, or else all.
	Look int
}

// Looks returns how many entries a list looks at.
func (f AuditFilter) Looks() int { return max(f.Look, PageSize(f.Limit)) }

// Below returns the id that all entries are below.
func (f AuditFilter) Below() int64 {
	if f.Before > 0 {
		return f.Before
	}
	return 1<<63 - 1
}

// AuditLook is what was found in a part of the audit.
type AuditLook struct {
	Entries []AuditEntry // that match, newest first
	// From is the lowest id that was looked at; 0: there are none below it.
	From int64
	// Oldest and Newest are the first and the last time among the entries that were looked at.
	Oldest, Newest time.Time
}
