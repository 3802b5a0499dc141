package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// byFailure is who wants what follows a failure.
const byFailure = "on_failure"

// The conditions on a batch that has not ended: something of it has failed and it says what is to follow that; all of it
// is done, and nobody wants anything of it.
const (
	hasFailed = "failures > failures_seen AND requested IS NULL AND on_failure <> 'continue'"
	isDone    = "sealed AND total = succeeded + failed + cancelled + rolled_back + rollback_failed" +
		" AND NOT EXISTS (SELECT 1 FROM operation WHERE batch_id = batch.id AND ended_at IS NULL)"
)

const foldQuery = "SELECT id, on_failure, " + hasFailed + " FROM batch INDEXED BY batch_open WHERE ended_at IS NULL AND (" +
	hasFailed + " OR " + isDone + ") ORDER BY id LIMIT ?"

const unseenQuery = "SELECT EXISTS (SELECT 1 FROM batch INDEXED BY batch_open WHERE ended_at IS NULL AND (NOT seen OR " +
	hasFailed + " OR " + isDone + "))"

const seeQuery = "UPDATE batch INDEXED BY batch_open SET seen = 1 WHERE ended_at IS NULL AND NOT seen"

// finishQuery inserts the task that tells of the end of a batch, if one is to.
const finishQuery = `
	INSERT INTO task (type, payload, run_at, created_at, created_by)
	SELECT batches.finish_type, json_set(finish_payload, '$.batch', json_object('id', id, 'name', batches.name, 'state', state,
			'round', batches.round, 'total', batches.total, 'succeeded', batches.succeeded, 'failed', batches.failed,
			'cancelled', batches.cancelled, 'rolled_back', batches.rolled_back, 'rollback_failed', batches.rollback_failed)),
		?2, ?2, 'leasehold'
	FROM batches JOIN batch USING (id) WHERE id = ?1 AND batches.finish_type IS NOT NULL`

// foldable is a batch of foldQuery.
type foldable struct {
	id        task.BatchID
	onFailure ops.OnFailure
	failed    bool
}

// Fold acts on failures and ends batches that are done; the triggers have summed all there is to sum. A batch that it has
// seen takes no further rows, unless it was created open.
func (s *Store) Fold(ctx context.Context, limit int) (done batch.Folded, err error) {
	if found, err := s.any(ctx, "look for batches to fold", unseenQuery); err != nil || !found {
		return done, err // mostly: and nobody need wait for the lock to know it
	}
	err = s.change(ctx, "fold batches", func(t *tx) error {
		done = batch.Folded{}
		if err := t.run(seeQuery); err != nil {
			return err
		}
		var list []foldable
		err := t.query(func(r *sql.Rows) error {
			var f foldable
			err := r.Scan(&f.id, &f.onFailure, &f.failed)
			list = append(list, f)
			return err
		}, foldQuery, limit)
		if err != nil {
			return err
		}
		done.Batches = len(list)
		for _, f := range list {
			if err := t.fold(f, &done); err != nil {
				return fmt.Errorf("batch %d: %w", f.id, err)
			}
		}
		return nil
	})
	if err != nil {
		return batch.Folded{}, err
	}
	return done, nil
}

// any asks a yes-or-no question without the lock.
func (s *Store) any(ctx context.Context, op, text string) (found bool, err error) {
	err = s.view(ctx, op, func(t *sql.Tx) error { return t.QueryRowContext(ctx, text).Scan(&found) })
	return found, err
}

func (t *tx) fold(f foldable, done *batch.Folded) error {
	if f.failed {
		if err := t.follow(f); err != nil {
			return err
		}
		sum, err := t.summary(f.id)
		sum.State = string(f.onFailure)
		done.Acted, done.Acts = done.Acted+1, append(done.Acts, sum)
		return err
	}
	at := stamp(t.now)
	if _, err := t.exec("UPDATE batch SET ended_at = ? WHERE id = ?", at, int64(f.id)); err != nil {
		return err
	}
	if _, err := t.exec(finishQuery, int64(f.id), at); err != nil {
		return err
	}
	sum, err := t.summary(f.id)
	done.Ended, done.Ends = done.Ended+1, append(done.Ends, sum)
	return err
}

// follow does what the batch says is to follow a failure.
func (t *tx) follow(f foldable) error {
	text := "INSERT INTO cancel_batch (id, by) VALUES (?, ?)"
	if f.onFailure == ops.OnFailureRollback {
		text = "INSERT INTO rollback_batch (id, by, force) VALUES (?, ?, 1)"
	}
	if _, err := t.exec(text, int64(f.id), byFailure); err != nil {
		return err
	}
	_, err := t.exec("UPDATE batch SET by_failure = 1 WHERE id = ?", int64(f.id))
	return err
}

func (t *tx) summary(id task.BatchID) (b batch.Summary, err error) {
	err = t.row([]any{&b.ID, &b.Name, &b.State, &b.Round, &b.Total, &b.Succeeded, &b.Failed, &b.Cancelled, &b.RolledBack, &b.RollbackFailed},
		`SELECT id, name, state, round, total, succeeded, failed, cancelled, rolled_back, rollback_failed FROM batches WHERE id = ?`,
		int64(id))
	if errors.Is(err, sql.ErrNoRows) {
		err = ops.ErrNoBatch
	}
	return b, err
}
