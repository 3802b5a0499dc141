package store

import "time"

// OrphanType is a type of waiting rows that no present agent with workers declares, neither as the name of a task type nor as an alias. Times
// are the store's clock.
type OrphanType struct {
	Type    string    `json:"type"`
	Waiting int64     `json:"waiting"`
	Running int64     `json:"running,omitempty"` // which go on, and are no orphans yet
	Oldest  time.Time `json:"oldest_at"`         // when the oldest of those that wait was inserted
	// DeclaredAt is when an agent last loaded a task type of this name or with this alias, DeclaredBy the agent's name, and DeclaredAs the
	// name of the task type; nil: none ever did.
	DeclaredAt *time.Time `json:"declared_at,omitempty"`
	DeclaredBy string     `json:"declared_by,omitempty"`
	DeclaredAs string     `json:"declared_as,omitempty"`
}
