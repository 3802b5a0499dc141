package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

const renewQuery = `
	UPDATE task SET lease_until = min(max(lease_until, ?4), ?5)
	WHERE id = ?1 AND fence = ?2 AND session = ?3 AND ` + running

// What a task has said of itself is written over what it said before; most rows have said nothing, and cost nothing.
const (
	noted = "progress = ifnull(?4, progress), message = ifnull(?5, message), checkpoint = ifnull(?6, checkpoint)"

	// noteQuery: ?7 is whether that is to be done for a row that was asked to stop, too.
	noteQuery = "UPDATE task SET " + noted + " WHERE id = ?1 AND fence = ?2 AND session = ?3 AND " + running +
		" AND (cancel_asked IS NULL OR ?7)"

	// renewNotedQuery is renewQuery with notes; ?9: the lease is detached from now on; ?10: marks, or NULL.
	renewNotedQuery = `
	UPDATE task SET lease_until = min(max(lease_until, ?7), ?8), ` + noted + `,
		detached = CASE WHEN ?9 THEN 1 ELSE detached END, marks = ifnull(?10, marks)
	WHERE id = ?1 AND fence = ?2 AND session = ?3 AND ` + running
)

// renew moves one lease's end, and tells how many rows that were.
func (t *tx) renew(s task.Session, r *lease.Renewal) (int64, error) {
	least, most := r.Bounds()
	from, to := stamp(t.now.Add(least)), stamp(t.now.Add(most))
	if r.Notes.Empty() && !r.Detach && r.Marks == nil {
		return t.exec(renewQuery, int64(r.ID), int64(r.Fence), int64(s), from, to)
	}
	var marks json.RawMessage
	if r.Marks != nil {
		all, err := t.marks(r.ID, r.Fence)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		all.Merge(*r.Marks)
		marks = all.JSON()
	}
	return t.exec(renewNotedQuery, int64(r.ID), int64(r.Fence), int64(s), jsonText(r.Progress), null(r.Message),
		jsonText(r.Checkpoint), from, to, r.Detach, jsonText(marks))
}

// Renew moves lease ends. It never answers Busy: nobody can lock a row of this store.
func (s *Store) Renew(ctx context.Context, session task.Session, rows []lease.Renewal) ([]lease.Answer, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	answers := make([]lease.Answer, len(rows))
	err := s.update(ctx, "renew leases", func(t *tx) error {
		for i := range rows {
			n, err := t.renew(session, &rows[i])
			if err != nil {
				return fmt.Errorf("task %d: %w", rows[i].ID, err)
			}
			if n == 1 {
				answers[i] = lease.Applied
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}
