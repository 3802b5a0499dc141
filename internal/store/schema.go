package store

import (
	"errors"
	"fmt"
)

// Schema is the version of a store's schema, and the range of binaries that may work on it. A binary is known by the newest
// schema version that it knows. The zero value is a store without a schema.
type Schema struct {
	Version int // of the newest step that was applied, from 1; 0: there is no schema
	Oldest  int // the oldest binary that may work on it, 1 to Version; 0: none older than Version
}

// Admits returns nil if a binary may work on the schema, and otherwise a *SchemaError with the remedy. A binary newer than
// the schema is refused, because it uses what later steps add. A binary older than the schema is admitted from Oldest on,
// because every step since has only added to what that binary knows.
func (s Schema) Admits(binary int) error {
	if s.Version != 0 && binary <= s.Version && binary >= s.oldest() {
		return nil
	}
	return &SchemaError{Have: s.Version, Oldest: s.oldest(), Want: binary}
}

// Missing returns how many steps a binary has to apply to bring the schema to its own version. A schema that is newer and
// admits the binary needs none. One that does not admit it, and is not older, gives a *SchemaError.
func (s Schema) Missing(binary int) (steps int, err error) {
	if s.Version < binary {
		return binary - s.Version, nil
	}
	return 0, s.Admits(binary)
}

// oldest is Oldest, or what its absence means: an unknown range admits no older binary.
func (s Schema) oldest() int {
	if s.Oldest == 0 {
		return s.Version
	}
	return s.Oldest
}

// SchemaError says that the store's schema does not admit this binary (Schema.Admits), and what to do about it.
type SchemaError struct {
	Have   int // version in the store; 0: none
	Oldest int // the oldest binary that it admits; 0: none older than Have
	Want   int // version of this binary
}

// Error names both versions and the remedy.
func (e *SchemaError) Error() string {
	switch {
	case e.Have == 0:
		return "the store has no Leasehold schema: run `leasehold migrate up` (or `leasehold run --migrate`)"
	case e.Outdated():
		return fmt.Sprintf("the store's schema is version %d and this binary needs %d: run `leasehold migrate up`", e.Have, e.Want)
	}
	return fmt.Sprintf("the store's schema is version %d, for binaries that know version %d or later, and this one knows only %d: "+
		"use a newer leasehold, or `leasehold migrate down` with the newer one", e.Have, Schema{e.Have, e.Oldest}.oldest(), e.Want)
}

// Outdated reports whether a migration by this binary is the remedy. Otherwise the binary is too old for the schema.
func (e *SchemaError) Outdated() bool { return e.Have < e.Want }

// IsOutdated reports whether err says that the schema is missing, or older than this binary needs: migrating is the remedy.
func IsOutdated(err error) bool {
	schema, ok := errors.AsType[*SchemaError](err)
	return ok && schema.Outdated()
}

// IsTooNew reports whether err says that the schema is newer than this binary may work on. No step of its own helps.
func IsTooNew(err error) bool {
	schema, ok := errors.AsType[*SchemaError](err)
	return ok && !schema.Outdated()
}

// NeedsOperator reports whether err says that the store answers but cannot be used until an operator acts: its schema does
// not admit this binary (*SchemaError), or it refuses the agent's role (*AccessError). The error says what to do; trying
// again alone does not help.
func NeedsOperator(err error) bool {
	var schema *SchemaError
	var access *AccessError
	return errors.As(err, &schema) || errors.As(err, &access)
}
