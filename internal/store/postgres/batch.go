package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

var (
	_ ops.Operator = (*Store)(nil)
	_ ops.Batches  = (*Store)(nil)
	_ batch.Store  = (*Store)(nil)
)

// {where} is written for each combination of filters. A batch is looked at closely only once it is one of those that
// are wanted.
const batchesSQL = `
SELECT b.id, b.name, b.state, b.on_failure, b.sealed, b.stopping, b.round, b.total, b.live, b.waiting, b.running, b.undoing,
    b.succeeded, b.failed, b.cancelled, b.rolled_back, b.rollback_failed, b.failures, b.progress, coalesce(b.finish_type, ''), b.labels,
    coalesce(b.created_by, ''), b.created_at, b.ended_at, coalesce(b.operation, ''), coalesce(b.requested_by, ''),
    coalesce(o.refused, 0)
FROM {schema}.batches AS b
LEFT JOIN LATERAL (
    SELECT o.refused FROM {schema}.operation AS o
    WHERE o.batch_id = b.id AND o.task_id IS NULL ORDER BY o.id DESC LIMIT 1
) AS o ON true
WHERE {where} ORDER BY b.id DESC LIMIT $1`

// batchFailuresSQL finds the newest rows of a batch that went wrong, and what they said: of a row that is or was rolled back
// for it, what its last run said. A row that is being rolled back is found by the indexes of what waits for that and of
// what runs: "+ 0" keeps the planner from the one of batches, where a million can wait.
const batchFailuresSQL = `
SELECT f.id, left(CASE WHEN f.undone THEN h.error ELSE f.error END, 1024) FROM (
    (SELECT a.id, a.error, a.state = 'rolled_back' AS undone FROM {schema}.task_archive AS a
     WHERE a.batch_id IS NOT NULL AND (a.batch_id, a.id) > ($1::bigint, 0) AND (a.batch_id, a.id) < ($1::bigint + 1, 0)
       AND (a.state IN ('failed', 'rollback_failed')
            OR a.state = 'rolled_back' AND coalesce(a.cause, '') NOT IN ('succeeded', 'cancelled'))
     ORDER BY a.batch_id DESC, a.id DESC LIMIT 10000)
    UNION ALL
    (SELECT t.id, t.error, true FROM {schema}.task AS t
     WHERE t.state = 'rollback_pending' AND t.batch_id + 0 = $1 AND coalesce(t.cause, '') NOT IN ('succeeded', 'cancelled')
     ORDER BY t.id DESC LIMIT 10000)
    UNION ALL
    (SELECT t.id, t.error, true FROM {schema}.task AS t
     WHERE t.state IN ('running', 'rollback_running') AND t.state = 'rollback_running' AND t.batch_id + 0 = $1
       AND coalesce(t.cause, '') NOT IN ('succeeded', 'cancelled')
     ORDER BY t.id DESC LIMIT 10000)
) AS f LEFT JOIN LATERAL (
    SELECT r.error FROM {schema}.attempt AS r
    WHERE f.undone AND r.task_id = f.id AND r.phase = 'run' ORDER BY r.fence DESC LIMIT 1
) AS h ON true
ORDER BY f.id DESC LIMIT 10000`

const isBatchSQL = `SELECT b.id FROM {schema}.batch AS b WHERE b.id = $1`

// GetBatch returns a batch.
func (s *Store) GetBatch(ctx context.Context, id task.BatchID) (*ops.BatchInfo, error) {
	var found []ops.BatchInfo
	err := s.do(ctx, fmt.Sprintf("get batch %d", id), func(ctx context.Context, conn *pgx.Conn) (err error) {
		found, err = s.batches(ctx, conn, "b.id = $2", 1, int64(id))
		if err == nil && len(found) == 0 {
			err = ops.ErrNoBatch
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// ListBatches returns batches that match, newest first.
func (s *Store) ListBatches(ctx context.Context, f ops.BatchFilter) (list []ops.BatchInfo, err error) {
	terms, args := []string{"true"}, []any{min(cmp.Or(f.Limit, 50), 1000)}
	term := func(format string, arg any) {
		args = append(args, arg)
		terms = append(terms, fmt.Sprintf(format, len(args)))
	}
	if f.Before != 0 {
		term("b.id < $%d", int64(f.Before))
	}
	if f.Name != "" {
		term("b.name = $%d", f.Name)
	}
	if len(f.States) > 0 {
		names := make([]string, len(f.States))
		for i, st := range f.States {
			names[i] = string(st)
		}
		term("b.state = ANY ($%d::text[])", names)
	}
	err = s.do(ctx, "list batches", func(ctx context.Context, conn *pgx.Conn) (err error) {
		list, err = s.batches(ctx, conn, strings.Join(terms, " AND "), args...)
		return err
	})
	return list, err
}

func (s *Store) batches(ctx context.Context, conn *pgx.Conn, where string, args ...any) ([]ops.BatchInfo, error) {
	rows, err := conn.Query(ctx, strings.Replace(s.sql.batches, "{where}", where, 1), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (b ops.BatchInfo, err error) {
		err = row.Scan((*int64)(&b.ID), &b.Name, (*string)(&b.State), (*string)(&b.OnFailure), &b.Sealed, &b.Stopping, &b.Round,
			&b.Total, &b.Live, &b.Waiting, &b.Running, &b.Undoing, &b.Succeeded, &b.Failed, &b.Cancelled, &b.RolledBack,
			&b.RollbackFailed, &b.Failures, &b.Progress, &b.FinishType, (*[]byte)(&b.Labels), &b.CreatedBy, &b.CreatedAt, &b.EndedAt,
			&b.Operation, &b.RequestedBy, &b.Refused)
		return b, err
	})
}

// BatchFailures groups the rows of a batch that went wrong.
func (s *Store) BatchFailures(ctx context.Context, id task.BatchID, limit int) ([]ops.FailureGroup, error) {
	var failures ops.Failures
	err := s.do(ctx, fmt.Sprintf("failures of batch %d", id), func(ctx context.Context, conn *pgx.Conn) error {
		var there int64
		err := conn.QueryRow(ctx, s.sql.isBatch, int64(id)).Scan(&there)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ops.ErrNoBatch
		case err != nil:
			return err
		}
		rows, err := conn.Query(ctx, s.sql.batchFailures, int64(id))
		if err != nil {
			return err
		}
		var of int64
		var why *string
		_, err = pgx.ForEachRow(rows, []any{&of, &why}, func() error {
			failures.Add(task.ID(of), or(why))
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return failures.Groups(limit), nil
}
