package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// scanBatch reads a row of the statement list_batches.
func scanBatch(r *sql.Rows) (b store.BatchInfo, err error) {
	var progress sql.NullFloat64
	var ended time.Time
	err = r.Scan(numberOf[task.BatchID]{&b.ID}, &b.Name, &b.State, &b.OnFailure, &b.Sealed, &b.Stopping, &b.Round, &b.Total,
		&b.Live, &b.Waiting, &b.Running, &b.RollingBack, &b.Succeeded, &b.Failed, &b.Cancelled, &b.RolledBack, &b.RollbackFailed,
		&b.Failures, &progress, textOf[string]{&b.FinishType}, jsonOf{&b.Labels}, textOf[string]{&b.CreatedBy}, timeOf{&b.CreatedAt},
		timeOf{&ended}, textOf[string]{&b.Operation}, textOf[string]{&b.RequestedBy}, numberOf[int64]{&b.Refused})
	if progress.Valid {
		b.Progress = &progress.Float64
	}
	b.EndedAt = pointer(ended)
	return b, err
}

// GetBatch returns a batch; store.ErrNoBatch where there is none.
func (s *Store) GetBatch(ctx context.Context, id task.BatchID) (info *store.BatchInfo, err error) {
	err = s.view(ctx, "get batch", func(t *snapshot) error {
		one, err := t.sql.ListBatches.Fill("{where}", "id = @id")
		if err != nil {
			return err
		}
		err = t.query(func(r *sql.Rows) error {
			b, err := scanBatch(r)
			info = &b
			return err
		}, one, arg("id", int64(id)), arg("limit", 1))
		if err == nil && info == nil {
			err = fmt.Errorf("%d: %w", id, store.ErrNoBatch)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

// ListBatches returns batches that match, newest first.
func (s *Store) ListBatches(ctx context.Context, f store.BatchFilter) (list []store.BatchInfo, err error) {
	q, args, err := s.sql.listBatchesQuery(f)
	if err != nil {
		return nil, err
	}
	err = s.view(ctx, "list batches", func(t *snapshot) error {
		return t.query(func(r *sql.Rows) error {
			b, err := scanBatch(r)
			list = append(list, b)
			return err
		}, q, args...)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// listBatchesQuery returns the statement that reads the batches that match, newest first, and its arguments.
func (q *statements) listBatchesQuery(f store.BatchFilter) (*sqltext.Query, []sqltext.Arg, error) {
	var where []string
	args := []sqltext.Arg{arg("limit", store.PageSize(f.Limit))}
	if f.Name != "" {
		where, args = append(where, "name = @name"), append(args, arg("name", f.Name))
	}
	if f.Before != 0 {
		where, args = append(where, "id < @before"), append(args, arg("before", int64(f.Before)))
	}
	if len(f.States) > 0 {
		where, args = append(where, "state IN (SELECT value FROM json_each(@states))"), append(args, arg("states", jsonList(f.States)))
	}
	list, err := q.ListBatches.Fill("{where}", conjunction(where))
	return list, args, err
}

// BatchFailures calls each with the rows of a batch that went wrong, newest first.
func (s *Store) BatchFailures(ctx context.Context, id task.BatchID, each func(task.ID, string)) error {
	return s.view(ctx, "look for failures of a batch", func(t *snapshot) error {
		var there bool
		if err := t.row([]any{&there}, t.sql.BatchExists, arg("id", int64(id))); err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("%d: %w", id, store.ErrNoBatch)
		}
		return t.query(func(r *sql.Rows) error {
			var failed task.ID
			var reason string
			if err := r.Scan(&failed, textOf[string]{&reason}); err != nil {
				return err
			}
			each(failed, reason)
			return nil
		}, t.sql.Failures, arg("batch", int64(id)), arg("limit", store.BatchFailuresRead))
	})
}

// batchTasks counts the tasks of batches that have not ended.
func (t *snapshot) batchTasks() (map[string]int64, error) {
	names := []string{"waiting", "running", "rolling_back", "succeeded", "failed", "cancelled", "rolled_back", "rollback_failed"}
	counts := make([]int64, len(names))
	dest := make([]any, len(names))
	for i := range counts {
		dest[i] = &counts[i]
	}
	if err := t.row(dest, t.sql.CountBatchTasks); err != nil {
		return nil, err
	}
	found := make(map[string]int64, len(names))
	for i, name := range names {
		found[name] = counts[i]
	}
	return found, nil
}
