// Package store is the protocol between Leasehold and its stores: the requests and replies of the calls, their errors, the rules
// that follow from them, and which binaries a schema admits. It is pure: implementations and callers import it.
package store

import (
	"context"
	"time"
)

// Migration is one numbered step of the schema.
type Migration struct {
	Version int        `json:"version"`    // from 1, without gaps
	Name    string     `json:"name"`       // as in its file name
	Oldest  int        `json:"oldest"`     // the oldest binary that may work on the schema from this step on, 1 to Version
	Applied *time.Time `json:"applied_at"` // nil: not yet
}

// Roles are names of roles, by what those that connect as them do with a store.
type Roles struct {
	Agents       []string // agents, and the commands of operators
	Applications []string // insert, query, and do what tasks do by SQL
	Operators    []string // operate by SQL, and do what applications do
}

// Migrator changes the schema of one store. Ten agents may migrate at once: one does it, the others wait for it and
// find it done.
type Migrator interface {
	// Schema returns the schema's version and range; the zero value where there is none.
	Schema(ctx context.Context) (Schema, error)
	// Up brings the schema to the binary's version and returns what it applied; nothing where all was there, or where the
	// schema is newer and admits the binary.
	Up(ctx context.Context) ([]Migration, error)
	// Down takes back the newest step and returns it. It refuses while sessions are present, and where the binary does not
	// know the step, even if the schema admits it.
	Down(ctx context.Context) (Migration, error)
	// Status lists all steps that the binary knows.
	Status(ctx context.Context) ([]Migration, error)
	// MaxPayload is the store's bound on payloads, in bytes; 0 where the schema has none yet.
	MaxPayload(ctx context.Context) (int64, error)
	// SetMaxPayload changes that, for rows inserted from then on. It looks at no row, and gives up after some seconds where
	// others keep the table.
	SetMaxPayload(ctx context.Context, bytes int64) error
	// Grant gives roles of the server what they need of the schema, all in one transaction, and may be repeated. It reports
	// whether it did: a schema that a newer binary has migrated is left to that one. A store without roles refuses.
	Grant(ctx context.Context, to Roles) (granted bool, err error)
	// SQL is the text of the steps after version from, as one script for people who migrate by hand; it records the
	// versions that it brings.
	SQL(from int) (string, error)
}
