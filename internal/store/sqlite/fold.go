package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// byFailure is the requester of what follows a failure.
const byFailure = "on_failure"

// foldable is a batch on which Fold acts.
type foldable struct {
	id        task.BatchID
	onFailure store.OnFailure
	failed    bool
}

// Fold acts on failures and ends batches that are done; the counters are exact already. A batch that it has seen accepts no
// more rows, unless it was created open.
func (s *Store) Fold(ctx context.Context, limit int) (done store.Folded, err error) {
	if found, err := s.any(ctx, "look for batches to fold", s.sql.AnyFoldable); err != nil || !found {
		return done, err // mostly, and without the lock
	}
	err = s.change(ctx, "fold batches", func(t *tx) error {
		done = store.Folded{}
		if _, err := t.exec(t.sql.SeeBatches); err != nil {
			return err
		}
		var list []foldable
		err := t.query(func(r *sql.Rows) error {
			var f foldable
			err := r.Scan(&f.id, &f.onFailure, &f.failed)
			list = append(list, f)
			return err
		}, t.sql.Foldable, arg("limit", limit))
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
		return store.Folded{}, err
	}
	return done, nil
}

// any returns the answer of a yes-or-no query, which it reads without the lock.
func (s *Store) any(ctx context.Context, op string, q *sqltext.Query) (found bool, err error) {
	err = s.view(ctx, op, func(t *snapshot) error { return t.row([]any{&found}, q) })
	return found, err
}

func (t *tx) fold(f foldable, done *store.Folded) error {
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
	if _, err := t.exec(t.sql.EndBatch, arg("now", at), arg("id", int64(f.id))); err != nil {
		return err
	}
	if _, err := t.exec(t.sql.InsertFinishTask, arg("now", at), arg("id", int64(f.id))); err != nil {
		return err
	}
	sum, err := t.summary(f.id)
	done.Ended, done.Ends = done.Ended+1, append(done.Ends, sum)
	return err
}

// follow requests what the batch says is to follow a failure.
func (t *tx) follow(f foldable) (err error) {
	id, by := arg("id", int64(f.id)), arg("by", byFailure)
	if f.onFailure == store.OnFailureRollback {
		_, err = t.exec(t.sql.RollbackBatch, id, by, arg("force", true))
	} else {
		_, err = t.exec(t.sql.CancelBatch, id, by)
	}
	if err == nil {
		_, err = t.exec(t.sql.MarkByFailure, id)
	}
	return err
}

func (t *tx) summary(id task.BatchID) (b store.BatchSummary, err error) {
	err = t.row([]any{&b.ID, &b.Name, &b.State, &b.Round, &b.Total, &b.Succeeded, &b.Failed, &b.Cancelled, &b.RolledBack, &b.RollbackFailed},
		t.sql.BatchSummary, arg("id", int64(id)))
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNoBatch
	}
	return b, err
}
