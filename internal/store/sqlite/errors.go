package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/leasehold/leasehold/internal/store"
)

// errQueue: a call waited its bound for its turn, behind calls of this process that wait for the lock themselves.
var errQueue = errors.New("many calls wait for their turn to write, or another program keeps the file locked")

// queueError is what to say of err, which ended the wait for the turn of a call whose context is ctx.
func queueError(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return errQueue
	}
	return err
}

var errClosed = errors.New("it is closed")

// code is the primary result code of SQLite in err; 0 where it has none (https://sqlite.org/rescode.html).
func code(err error) int {
	var e *driver.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

func isBusy(err error) bool {
	switch code(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		return true
	}
	// Where many processes switch a new file to write-ahead logging at once, one may find the journal deleted by another.
	var e *driver.Error
	return errors.As(err, &e) && e.Code() == lib.SQLITE_IOERR_DELETE_NOENT
}

// explain adds to err what was being done, on which file, and what a person can do about it.
func (s *Store) explain(op string, err error) error {
	var schema *store.SchemaError
	var input *store.InputError
	var refused *store.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &schema), errors.As(err, &input), errors.As(err, &refused), errors.Is(err, store.ErrNoTask),
		errors.Is(err, store.ErrNoBatch), errors.Is(err, store.ErrNoSchedule), errors.Is(err, store.ErrNoChunkPlan),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", op, err)
	case strings.Contains(err.Error(), "no such table"):
		return fmt.Errorf("%s: store %s: %w (%w)", op, s.path, store.Schema{}.Admits(version()), err)
	}
	if hint := s.hint(err); hint != "" {
		return fmt.Errorf("%s: store %s: %s: %w", op, s.path, hint, err)
	}
	return fmt.Errorf("%s: store %s: %w", op, s.path, err)
}

// hint says what is behind a result code, and the remedy.
func (s *Store) hint(err error) string {
	switch code(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		return fmt.Sprintf("another program has kept the file locked for %s: its transaction must commit or roll back", s.busy)
	case lib.SQLITE_NOTADB:
		return "the file is not a SQLite database: name another one"
	case lib.SQLITE_CANTOPEN:
		return "the file cannot be opened: this user must be able to read and write it and its directory " +
			"(SQLite keeps -wal and -shm files beside it)"
	case lib.SQLITE_READONLY, lib.SQLITE_PERM:
		return "this user may not write it: allow writing to the file and its directory " +
			"(SQLite keeps -wal and -shm files beside it)"
	case lib.SQLITE_CORRUPT:
		return "the file is damaged: restore it from a backup"
	case lib.SQLITE_FULL:
		return "the disk is full"
	}
	return ""
}

// refused turns a broken constraint into the mistake that it is; nil where err is something else. The texts are the
// names of the constraints in the schema.
func refused(err error) *store.InputError {
	if code(err) != lib.SQLITE_CONSTRAINT {
		return nil
	}
	text := err.Error()
	text = strings.TrimPrefix(text, "constraint failed: ")
	text = strings.TrimPrefix(text, "CHECK constraint failed: ")
	if i := strings.LastIndex(text, " ("); i > 0 && strings.HasSuffix(text, ")") {
		text = text[:i] // SQLite's result code
	}
	return &store.InputError{Text: store.TooLarge(text)}
}
