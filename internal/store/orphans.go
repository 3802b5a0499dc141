package store

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// OrphanType is a type of waiting rows that no present agent with workers declares, neither as the name of a task type nor as an alias. Times
// are the store's clock.
type OrphanType struct {
	Type    string    `json:"type"`
	Waiting int64     `json:"waiting"`
	Capped  bool      `json:"capped,omitempty"`  // more rows than were counted: Waiting and Running are lower bounds, and Oldest is of the counted
	Running int64     `json:"running,omitempty"` // which go on, and are no orphans yet
	Oldest  time.Time `json:"oldest_at"`         // when the oldest of those that wait was inserted
	// DeclaredAt is when an agent last loaded a task type of this name or with this alias, DeclaredBy the agent's name, and DeclaredAs the
	// name of the task type; nil: none ever did.
	DeclaredAt *time.Time `json:"declared_at,omitempty"`
	DeclaredBy string     `json:"declared_by,omitempty"`
	DeclaredAs string     `json:"declared_as,omitempty"`
}

// OrphanStep is one step of a change of the waiting rows of a type that no present agent declares.
type OrphanStep struct {
	Type    string
	Into    string // the type that they get; "": they are cancelled
	By      string
	Reason  string
	Preview bool // count, and change nothing
	From    OrphanCursor
}

// OrphanCursor is where a step begins. The zero value is the beginning: first the rows without a sequence, by id, and then the sequences, by
// name. Where rows are cancelled there are only ids.
type OrphanCursor struct {
	ID        task.ID `json:"id,omitempty"`        // the row that was looked at last
	Sequences bool    `json:"sequences,omitempty"` // the rows without a sequence are done
	Sequence  string  `json:"sequence,omitempty"`  // the one that was looked at last
}

// Bounds of one step: changed rows, and rows that are looked at.
const (
	OrphansChanged = 1000
	OrphansSeen    = 10000
)

// OrphansStepped is what a step has done, or would do.
type OrphansStepped struct {
	Changed   int          `json:"changed"`
	RollsBack int          `json:"rolls_back,omitempty"` // of these: cancelled rows that are to be rolled back, and wait for that
	Left      []OrphanLeft `json:"left,omitempty"`       // by id
	Next      OrphanCursor `json:"next"`
	Done      bool         `json:"done"`
}

// OrphanLeft is a waiting row that stays as it is, or a sequence whose rows all stay.
type OrphanLeft struct {
	ID       task.ID   `json:"task_id"`            // of a sequence: the row on account of which all stay, or else its first one
	Sequence string    `json:"sequence,omitempty"` // "": it is one row
	Reason   OrphanWhy `json:"reason"`
	Rows     int       `json:"rows"` // waiting ones that stay; of a long sequence, those among the first OrphansChanged + 1
}

// OrphanWhy is why a row stays as it is.
type OrphanWhy string

// Why rows stay.
const (
	OrphanBusy       OrphanWhy = "busy"        // another transaction works on it, or is about to insert its key under the other type
	OrphanKey        OrphanWhy = "key"         // a live row of the other type has its key
	OrphanNoRollback OrphanWhy = "no_rollback" // it waits for its rollback, or may need one, and the other type has none
	OrphanRunning    OrphanWhy = "running"     // of a sequence: a row of it runs, or what it ran may be at work
	OrphanFailure    OrphanWhy = "failure"     // of a sequence: a failure blocks it
	OrphanLong       OrphanWhy = "long"        // of a sequence: it has more than OrphansChanged rows, and would have to be moved piece by piece
)
