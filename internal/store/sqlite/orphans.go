package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// CancelOrphans cancels some of the waiting rows of a type that no present agent declares.
func (s *Store) CancelOrphans(ctx context.Context, o store.OrphanStep) (done store.OrphansStepped, err error) {
	err = s.change(ctx, "cancel orphans", func(t *tx) error {
		done = store.OrphansStepped{}
		if err := t.checkOrphans(o); err != nil {
			return err
		}
		rows, next, last, err := t.findOrphans(o, func(r *orphan) bool { return r.state.Phase() == task.Run })
		if err != nil {
			return err
		}
		done = store.OrphansStepped{Changed: len(rows), Next: store.OrphanCursor{ID: next}, Done: last}
		for _, r := range rows {
			if r.rollsBack {
				done.RollsBack++
			}
		}
		if o.Preview || len(rows) == 0 {
			return nil
		}
		return t.auditing(o, "cancel", fmt.Sprintf("cancelled %d", len(rows)), func() error {
			for _, r := range rows {
				if _, err := t.exec(t.sql.Cancel, arg("id", int64(r.id)), arg("by", null(o.By))); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return done, err
}

// checkOrphans refuses a change of rows that are no orphans.
func (t *tx) checkOrphans(o store.OrphanStep) error {
	switch {
	case o.Type == "" || len(o.Type) > store.MaxType:
		return &store.InputError{Text: "type must have 1 to 255 bytes"}
	case len(o.Reason) > store.MaxReason:
		return &store.InputError{Text: "reason must be 512 bytes at most"}
	case len(o.By) > store.MaxBy:
		return &store.InputError{Text: "by must be 512 bytes at most"}
	}
	var name string
	err := t.row([]any{&name}, t.sql.Declarer, arg("type", o.Type), arg("now", stamp(t.now)))
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = refusal("agent %q declares the type %q: its tasks are no orphans", name, o.Type)
	}
	return err
}

// orphan is a waiting row.
type orphan struct {
	id        task.ID
	state     task.State
	sequenced bool
	rollsBack bool // if it is cancelled
}

// findOrphans finds the next waiting rows of the type that are wanted. next is the row that was looked at last, and last that there are no
// more.
func (t *tx) findOrphans(o store.OrphanStep, wanted func(*orphan) bool) (rows []orphan, next task.ID, last bool, err error) {
	next = o.From.ID
	seen, full := 0, false
	err = t.query(func(r *sql.Rows) error {
		var row orphan
		var hit bool
		if err := r.Scan(&row.id, &hit, &row.state, &row.sequenced, &row.rollsBack); err != nil || full {
			return err
		}
		if hit && row.state.Waiting() && wanted(&row) {
			if full = len(rows) == store.OrphansChanged; full {
				return nil
			}
			rows = append(rows, row)
		}
		next = row.id
		seen++
		return nil
	}, t.sql.RowsBehind, arg("type", o.Type), arg("id", int64(o.From.ID)), arg("limit", store.OrphansSeen))
	return rows, next, !full && seen < store.OrphansSeen, err
}

// auditing notes a change of a type, with the reason for it also where the change itself notes something.
func (t *tx) auditing(o store.OrphanStep, verb, answer string, change func() error) error {
	var before int64
	if err := t.row([]any{&before}, t.sql.LastAudit); err != nil {
		return err
	}
	if err := change(); err != nil {
		return orRefused(err)
	}
	if _, err := t.exec(t.sql.AuditReason, arg("last", before), arg("reason", null(o.Reason))); err != nil {
		return err
	}
	_, err := t.exec(t.sql.AuditType, arg("by", null(o.By)), arg("verb", verb), arg("type", o.Type), arg("reason", null(o.Reason)),
		arg("answer", answer))
	return err
}
