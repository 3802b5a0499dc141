package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/internal/store"
)

//go:embed task_bounds.sql
var boundsText string

// bounds returns the SQL that creates the trigger task_bounds, for a bound on payloads.
func bounds(bytes int64) string {
	return strings.NewReplacer("{bytes}", strconv.FormatInt(bytes, 10), "{size}", store.Size(bytes)).Replace(boundsText)
}

// setMaxPayload sets the bound, and creates its trigger anew.
func (t *tx) setMaxPayload(bytes int64) error {
	if _, err := t.exec(t.sql.SetMaxPayload, arg("bytes", bytes)); err != nil {
		return err
	}
	return t.script("DROP TRIGGER IF EXISTS task_bounds;\n" + bounds(bytes))
}

// keepMaxPayload creates the trigger anew, for the bound that is set.
func (t *tx) keepMaxPayload() error {
	var bytes int64
	if err := t.row([]any{&bytes}, t.sql.MaxPayload); err != nil {
		return err
	}
	return t.setMaxPayload(bytes)
}

// MaxPayload returns the bound, in bytes; 0 where there is no schema.
func (m migrator) MaxPayload(ctx context.Context) (bytes int64, err error) {
	err = m.s.view(ctx, "read the bound on payloads", func(t *snapshot) error {
		if have, err := t.version(); err != nil || have.Version == 0 {
			return err
		}
		err := t.row([]any{&bytes}, t.sql.MaxPayload)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return bytes, err
}

// SetMaxPayload changes the bound, in bytes.
func (m migrator) SetMaxPayload(ctx context.Context, bytes int64) error {
	if err := store.CheckMaxPayload(bytes); err != nil {
		return err
	}
	return m.s.update(ctx, "set the bound on payloads", func(t *tx) error {
		have, err := t.version()
		if err = checkVersion(have, err); err == nil {
			err = have.KnownTo(version()) // a newer binary may know another trigger
		}
		if err != nil {
			return err
		}
		if err := t.setMaxPayload(bytes); err != nil {
			return fmt.Errorf("to %s: %w", store.Size(bytes), err)
		}
		return nil
	})
}
