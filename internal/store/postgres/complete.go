package postgres

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// What a completion does stands in one place, the function that SQL's complete calls too.
const completeSQL = `SELECT {schema}.take_complete($1, $2, false, nullif($3::text, '')::jsonb)`

// What was completed may be back from the archive, to be undone: then its history tells. Each lookup ends at its first
// row: an EXISTS could be turned into a scan of the archive.
const completedSQL = `
SELECT done.id IS NOT NULL OR undone.task_id IS NOT NULL
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS i (id, fence, place)
LEFT JOIN LATERAL (
    SELECT a.id FROM {schema}.task_archive AS a
    WHERE a.id = i.id AND a.fence = i.fence + 1 AND a.outcome = 'succeeded' LIMIT 1) AS done ON true
LEFT JOIN LATERAL (
    SELECT h.task_id FROM {schema}.attempt AS h
    WHERE h.task_id = i.id AND h.fence = i.fence AND h.outcome = 'succeeded' LIMIT 1) AS undone ON true
ORDER BY i.place`

// Complete ends an attempt well, whoever holds its row.
func (s *Store) Complete(
	ctx context.Context, id task.ID, f task.Fence, result json.RawMessage,
) (answer lease.Answer, err error) {
	err = s.do(ctx, "complete a task", func(ctx context.Context, conn *pgx.Conn) error {
		for wait := lockFirst; ; wait *= 2 {
			answer, err = s.completeOnce(ctx, conn, id, f, storableResult(result))
			if badValue(err) {
				s.log.Warn("the store refuses a result as JSON: it is kept as a string", "task", int64(id), "err", err)
				answer, err = s.completeOnce(ctx, conn, id, f, string(asString(result)))
			}
			if err != nil || answer != lease.Busy || wait > lockLast || !pause(ctx, wait) {
				return err
			}
		}
	})
	return answer, err
}

func (s *Store) completeOnce(
	ctx context.Context, conn *pgx.Conn, id task.ID, f task.Fence, result string,
) (answer lease.Answer, err error) {
	if err := s.failAt(failBefore); err != nil {
		return lease.Lost, err
	}
	var text string
	err = s.committed(ctx, conn, func(q rowsQuerier) error {
		return scanOne(ctx, q, s.sql.complete, []any{int64(id), int64(f), result}, &text)
	})
	if err != nil {
		return lease.Lost, err
	}
	if answer, err = answerOf(text); err != nil {
		return lease.Lost, err
	}
	return answer, s.failAt(failAfter)
}

// scanOne reads a statement of one row to its end: where the statement stands alone, it has committed then.
func scanOne(ctx context.Context, q rowsQuerier, text string, args []any, into ...any) error {
	rows, err := q.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, func() error { return nil })
	return err
}

// Completed tells which attempts have ended well.
func (s *Store) Completed(ctx context.Context, rows []lease.Held) (done []bool, err error) {
	if len(rows) == 0 {
		return nil, ctx.Err()
	}
	ids, fences := make([]int64, len(rows)), make([]int64, len(rows))
	for i, h := range rows {
		ids[i], fences[i] = int64(h.ID), int64(h.Fence)
	}
	err = s.do(ctx, "look for completions", func(ctx context.Context, conn *pgx.Conn) error {
		found, err := conn.Query(ctx, s.sql.completed, ids, fences)
		if err != nil {
			return err
		}
		done, err = pgx.CollectRows(found, pgx.RowTo[bool])
		return err
	})
	return done, err
}
