package store

import (
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Glance is what changes of a task while somebody looks on.
type Glance struct {
	ID              task.ID         `json:"id"`
	Type            string          `json:"type"`
	State           task.State      `json:"state"`
	Attempt         int             `json:"attempt"`
	Deferrals       int             `json:"deferrals"`
	Fence           task.Fence      `json:"fence"`
	RunAt           time.Time       `json:"run_at"`
	LeaseEnd        *time.Time      `json:"lease_until,omitempty"`
	CancelRequested *time.Time      `json:"cancel_requested_at,omitempty"`
	FinishedAt      *time.Time      `json:"finished_at,omitempty"`
	Progress        json.RawMessage `json:"progress,omitempty"`
	Message         string          `json:"message,omitempty"`

	FailedTask task.ID `json:"-"` // for whose failure it was inserted
	NotJSON    bool    `json:"-"` // Progress is not JSON, and stands here as a string with its text
}

// MarshalJSON refuses: package ops has the glances that may be shown.
func (Glance) MarshalJSON() ([]byte, error) { return nil, errUnmasked }

// Mark is a task as it is told from what it was before.
type Mark struct {
	ID    task.ID
	Type  string
	State task.State
	Fence task.Fence // of a live one
}
