package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
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

// KnownTo returns nil if a binary knows every step that was applied. It may work on a schema that admits it without knowing
// all of it, but what changes the schema itself (the newest step's way back, a trigger with a setting in its text) it must
// leave to one that does.
func (s Schema) KnownTo(binary int) error {
	if s.Version <= binary {
		return nil
	}
	if err := s.Admits(binary); err != nil {
		return err
	}
	return fmt.Errorf("the store's schema is version %d and this binary knows only %d, which may work on it, and not change it: "+
		"use a newer leasehold", s.Version, binary)
}

// DeclaredOldest returns the oldest binary that may work on a schema from a step on, which the first line of the step's file
// declares: `-- oldest: 7`. It is before, which the step before declares, to version, the step's own; every other number is an
// error, as is none.
func DeclaredOldest(text string, version, before int) (int, error) {
	const key = "-- oldest:"
	line, _, _ := strings.Cut(text, "\n")
	number, declared := strings.CutPrefix(line, key)
	oldest, err := strconv.Atoi(strings.TrimSpace(number))
	switch {
	case !declared || err != nil:
		return 0, fmt.Errorf("the first line must say which binary is the oldest that may work on the schema then: %s N", key)
	case oldest < before || oldest > version:
		return 0, fmt.Errorf("%s %d: it must be between %d, that of the step before, and %d, the step's own version",
			key, oldest, before, version)
	}
	return oldest, nil
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
