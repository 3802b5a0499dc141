// Package store holds what the stores have in common: the errors that callers decide on.
package store

import (
	"context"
	"fmt"
	"time"
)

// SchemaError says that the store's schema is not the one this binary works with.
type SchemaError struct {
	Have int // version in the store; 0: none
	Want int // version of this binary
}

func (e *SchemaError) Error() string {
	switch {
	case e.Have == 0:
		return "the store has no Leasehold schema: run `leasehold migrate up` (or `leasehold run --migrate`)"
	case e.Have < e.Want:
		return fmt.Sprintf("the store's schema is version %d and this binary needs %d: run `leasehold migrate up`", e.Have, e.Want)
	}
	return fmt.Sprintf("the store's schema is version %d and this binary knows only %d: "+
		"use a newer leasehold, or `leasehold migrate down` with the newer one", e.Have, e.Want)
}

// Migration is one numbered step of the schema.
type Migration struct {
	Version int        // from 1, without gaps
	Name    string     // as in its file name
	Applied *time.Time // nil: not yet
}

// Migrator changes the schema of one store. Ten agents may migrate at once: one does it, the others wait for it and
// find it done.
type Migrator interface {
	// Up brings the schema to the binary's version and returns what it applied; nothing where all was there.
	Up(ctx context.Context) ([]Migration, error)
	// Down takes back the newest step and returns it. It refuses while sessions are present.
	Down(ctx context.Context) (Migration, error)
	// Status lists all steps that the binary knows.
	Status(ctx context.Context) ([]Migration, error)
	// MaxPayload is the store's bound on payloads, in bytes; 0 where the schema has none yet.
	MaxPayload(ctx context.Context) (int64, error)
	// SetMaxPayload changes that, for rows inserted from then on. It looks at no row, and gives up after some seconds where
	// others keep the table.
	SetMaxPayload(ctx context.Context, bytes int64) error
	// SQL is the text of the steps after version from, as one script for people who migrate by hand; it records the
	// versions that it brings.
	SQL(from int) (string, error)
}
