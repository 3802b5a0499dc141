package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/internal/store"
)

// boundsText are the triggers that keep rows within bounds. The lengths are of what is being inserted and reads nothing; an
// UPDATE of ours names none of these columns.
const boundsText = `CREATE TRIGGER task_bounds AFTER INSERT ON task
WHEN NEW.fence NOT BETWEEN 0 AND 4611686018427387904 OR NEW.id NOT BETWEEN 1 AND 1099511627776
    OR length(CAST(NEW.payload AS BLOB)) > iif(NEW.fence = 0, {bytes}, 67108864)
    OR length(CAST(NEW.rollback_payload AS BLOB)) > iif(NEW.fence = 0, {bytes}, 67108864)
BEGIN
    SELECT RAISE(ABORT, 'fence must be between 0 and 2^62') WHERE NEW.fence NOT BETWEEN 0 AND 4611686018427387904;
    SELECT RAISE(ABORT, 'id must be left out: the table gives one')
    WHERE NEW.id < 1 OR NEW.id > 4294967296 + ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'task'), 0);
    SELECT RAISE(ABORT, 'payload must be {size} at most: see option max-payload of leasehold migrate')
    WHERE length(CAST(NEW.payload AS BLOB)) > iif(NEW.fence = 0, {bytes}, 67108864);
    SELECT RAISE(ABORT, 'rollback_payload must be {size} at most: see option max-payload of leasehold migrate')
    WHERE length(CAST(NEW.rollback_payload AS BLOB)) > iif(NEW.fence = 0, {bytes}, 67108864);
END;
CREATE TRIGGER task_bounds_kept AFTER UPDATE OF id, payload, rollback_payload ON task
WHEN NEW.id <> OLD.id OR length(CAST(NEW.payload AS BLOB)) > 67108864 OR length(CAST(NEW.rollback_payload AS BLOB)) > 67108864
BEGIN
    SELECT RAISE(ABORT, 'id, and payloads beyond 64 MiB, cannot be set by an update');
END;
`

// bounds is boundsText for a bound on payloads.
func bounds(bytes int64) string {
	return strings.NewReplacer("{bytes}", strconv.FormatInt(bytes, 10), "{size}", store.Size(bytes)).Replace(boundsText)
}

// setMaxPayload sets the bound, and makes the triggers that keep to it.
func (t *tx) setMaxPayload(bytes int64) error {
	if _, err := t.exec("UPDATE setting SET max_payload = ?", bytes); err != nil {
		return err
	}
	return t.script("DROP TRIGGER IF EXISTS task_bounds; DROP TRIGGER IF EXISTS task_bounds_kept;\n" + bounds(bytes))
}

// keepMaxPayload makes the triggers anew for what is set, after steps that came with those for the default.
func (t *tx) keepMaxPayload() error {
	var bytes int64
	if err := t.row([]any{&bytes}, "SELECT max_payload FROM setting"); err != nil {
		return err
	}
	return t.setMaxPayload(bytes)
}

// MaxPayload reads the bound.
func (m migrator) MaxPayload(ctx context.Context) (bytes int64, err error) {
	err = m.s.view(ctx, "read the bound on payloads", func(t *sql.Tx) error {
		if have, err := versionOf(ctx, t.QueryRowContext); err != nil || have == 0 {
			return err
		}
		err := t.QueryRowContext(ctx, "SELECT max_payload FROM setting").Scan(&bytes)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return bytes, err
}

// SetMaxPayload changes the bound.
func (m migrator) SetMaxPayload(ctx context.Context, bytes int64) error {
	if err := store.CheckMaxPayload(bytes); err != nil {
		return err
	}
	return m.s.update(ctx, "set the bound on payloads", func(t *tx) error {
		if err := checkVersion(t.version()); err != nil {
			return err
		}
		if err := t.setMaxPayload(bytes); err != nil {
			return fmt.Errorf("to %s: %w", store.Size(bytes), err)
		}
		return nil
	})
}
