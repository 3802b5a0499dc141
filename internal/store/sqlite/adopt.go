package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/task"
)

// adoptableQuery finds the row that an attempt with the fence holds, or whose hold is being judged, and tells by whom.
const adoptableQuery = `
	SELECT t.session, t.detached IS NOT NULL, t.claim = 0, a.session IS NOT NULL
	FROM task AS t NOT INDEXED LEFT JOIN agent AS a ON a.session = t.session AND a.present_until > ?3 AND a.seen_at <= ?4
	WHERE t.id = ?1 AND t.state IN ('running', 'rollback_running')
		AND (t.fence = ?2 AND t.claim > 0 OR t.fence = ?2 + 1 AND t.claim = 0)`

const adoptQuery = `
	UPDATE task SET fence = ?2 + 1, session = ?3, claim = 0, lease_until = ?4, detached = NULL, ping_due = NULL
	WHERE id = ?1 RETURNING ` + judged

// condemnedQuery reports whether an attempt has ended as failed or rejected. The history has every one that did.
const condemnedQuery = `
	SELECT EXISTS (SELECT 1 FROM attempt WHERE task_id = ?1 AND ran_fence = ?2 AND outcome IN ('failed', 'rejected'))`

// Adopt claims a row for judgement by the fence of its attempt. Whoever judges it already is given it again.
func (s *Store) Adopt(
	ctx context.Context, session task.Session, id task.ID, f task.Fence, judge time.Duration,
) (swept *poll.Swept, a lease.Answer, err error) {
	err = s.update(ctx, "adopt task", func(t *tx) error {
		var holder task.Session
		var detached, judged, present bool
		err := t.row([]any{&holder, &detached, &judged, &present}, adoptableQuery,
			int64(id), int64(f), stamp(t.now), stamp(t.now.Add(time.Second)))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			condemned := false
			err = t.row([]any{&condemned}, condemnedQuery, int64(id), int64(f))
			if a = lease.Lost; condemned {
				a = lease.Ended
			}
			return err
		case err != nil:
			return err
		case holder != session && (judged || !detached):
			a = lease.Busy
			return nil
		}
		a = lease.Applied
		return t.query(func(r *sql.Rows) error {
			row, err := t.scanJudged(r)
			row.Present, row.Detached = present, detached
			swept = &row
			return err
		}, adoptQuery, int64(id), int64(f), int64(session), stamp(t.now.Add(judge)))
	})
	if err != nil {
		return nil, lease.Lost, err
	}
	return swept, a, nil
}
