package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// batchColumns are the columns of scanBatch.
const batchColumns = `id, name, state, on_failure, sealed, stopping, round, total, live, waiting, running, undoing, succeeded,
	failed, cancelled, rolled_back, rollback_failed, failures, progress, finish_type, labels, created_by, created_at, ended_at,
	operation, requested_by,
	(SELECT refused FROM operation WHERE operation.batch_id = batches.id ORDER BY operation.id DESC LIMIT 1)`

// scanBatch reads the columns batchColumns.
func scanBatch(r *sql.Rows) (b ops.BatchInfo, err error) {
	var progress sql.NullFloat64
	var ended time.Time
	err = r.Scan(numberOf[task.BatchID]{&b.ID}, &b.Name, &b.State, &b.OnFailure, &b.Sealed, &b.Stopping, &b.Round, &b.Total,
		&b.Live, &b.Waiting, &b.Running, &b.Undoing, &b.Succeeded, &b.Failed, &b.Cancelled, &b.RolledBack, &b.RollbackFailed,
		&b.Failures, &progress, textOf[string]{&b.FinishType}, jsonOf{&b.Labels}, textOf[string]{&b.CreatedBy}, timeOf{&b.CreatedAt},
		timeOf{&ended}, textOf[string]{&b.Operation}, textOf[string]{&b.RequestedBy}, numberOf[int64]{&b.Refused})
	if progress.Valid {
		b.Progress = &progress.Float64
	}
	b.EndedAt = pointer(ended)
	return b, err
}

// GetBatch returns a batch; ops.ErrNoBatch where there is none.
func (s *Store) GetBatch(ctx context.Context, id task.BatchID) (info *ops.BatchInfo, err error) {
	err = s.view(ctx, "get batch", func(t *sql.Tx) error {
		rows, err := t.QueryContext(ctx, "SELECT "+batchColumns+" FROM batches WHERE id = ?", int64(id))
		if err != nil {
			return err
		}
		err = eachRow(rows, func(r *sql.Rows) error {
			b, err := scanBatch(r)
			info = &b
			return err
		})
		if err == nil && info == nil {
			err = fmt.Errorf("%d: %w", id, ops.ErrNoBatch)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

// ListBatches returns batches that match, newest first.
func (s *Store) ListBatches(ctx context.Context, f ops.BatchFilter) (list []ops.BatchInfo, err error) {
	text, args, err := listBatchesQuery(f)
	if err != nil {
		return nil, err
	}
	err = s.view(ctx, "list batches", func(t *sql.Tx) error {
		rows, err := t.QueryContext(ctx, text, args...)
		if err != nil {
			return err
		}
		return eachRow(rows, func(r *sql.Rows) error {
			b, err := scanBatch(r)
			list = append(list, b)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func listBatchesQuery(f ops.BatchFilter) (text string, args []any, err error) {
	conditions := []string{"1"}
	if f.Name != "" {
		conditions, args = append(conditions, "name = ?"), append(args, f.Name)
	}
	if f.Before != 0 {
		conditions, args = append(conditions, "id < ?"), append(args, int64(f.Before))
	}
	if len(f.States) > 0 {
		states, err := json.Marshal(f.States)
		if err != nil {
			return "", nil, fmt.Errorf("encode states: %w", err)
		}
		conditions, args = append(conditions, "state IN (SELECT value FROM json_each(?))"), append(args, string(states))
	}
	limit := f.Limit
	if limit <= 0 {
		limit = 50
	}
	return "SELECT " + batchColumns + " FROM batches WHERE " + strings.Join(conditions, " AND ") + " ORDER BY id DESC LIMIT ?",
		append(args, min(limit, 1000)), nil
}

// failuresRead is how many failures are looked at to group them.
const failuresRead = 10_000

// failuresQuery reads what went wrong: of a task that is undone because it failed, what its run said.
const failuresQuery = `
	SELECT * FROM (
		SELECT id, iif(state = 'rolled_back', ` + runError + `, error) FROM task_archive AS t INDEXED BY task_archive_batch_unwell
		WHERE batch_id = ?1 AND state <> 'succeeded' AND (state IN ('failed', 'rollback_failed')
			OR state = 'rolled_back' AND cause NOT IN ('succeeded', 'cancelled'))
		ORDER BY id DESC LIMIT ?2)
	UNION ALL SELECT * FROM (
		SELECT id, ` + runError + ` FROM task AS t INDEXED BY task_batch
		WHERE batch_id = ?1 AND state IN ('rollback_pending', 'rollback_running') AND cause NOT IN ('succeeded', 'cancelled')
		ORDER BY id DESC LIMIT ?2)
	ORDER BY 1 DESC LIMIT ?2`

const runError = "(SELECT error FROM attempt WHERE task_id = t.id AND phase = 'run' ORDER BY fence DESC LIMIT 1)"

// BatchFailures groups what went wrong in a batch, the newest of it.
func (s *Store) BatchFailures(ctx context.Context, id task.BatchID, limit int) (groups []ops.FailureGroup, err error) {
	err = s.view(ctx, "look for failures of a batch", func(t *sql.Tx) error {
		var there bool
		if err := t.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM batch WHERE id = ?)", int64(id)).Scan(&there); err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("%d: %w", id, ops.ErrNoBatch)
		}
		rows, err := t.QueryContext(ctx, failuresQuery, int64(id), failuresRead)
		if err != nil {
			return err
		}
		var f ops.Failures
		err = eachRow(rows, func(r *sql.Rows) error {
			var failed task.ID
			var why string
			err := r.Scan(&failed, textOf[string]{&why})
			f.Add(failed, why)
			return err
		})
		groups = f.Groups(limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return groups, nil
}

// batchTasks counts the tasks of batches that have not ended.
func batchTasks(ctx context.Context, t *sql.Tx) (map[string]int64, error) {
	names := []string{"waiting", "running", "undoing", "succeeded", "failed", "cancelled", "rolled_back", "rollback_failed"}
	counts := make([]int64, len(names))
	dest := make([]any, len(names))
	for i := range counts {
		dest[i] = &counts[i]
	}
	text := "SELECT ifnull(sum(" + strings.Join(names, "), 0), ifnull(sum(") + "), 0) FROM batches WHERE ended_at IS NULL"
	if err := t.QueryRowContext(ctx, text).Scan(dest...); err != nil {
		return nil, err
	}
	found := make(map[string]int64, len(names))
	for i, name := range names {
		found[name] = counts[i]
	}
	return found, nil
}
