package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The batches that have rows in a day's table, each found by one step along the index.
const dayBatchesSQL = `
WITH RECURSIVE b (id) AS (
    SELECT (SELECT a.batch_id FROM {schema}.%[1]s AS a WHERE a.batch_id IS NOT NULL ORDER BY a.batch_id LIMIT 1)
    UNION ALL
    SELECT (SELECT a.batch_id FROM {schema}.%[1]s AS a WHERE a.batch_id > b.id ORDER BY a.batch_id LIMIT 1)
    FROM b WHERE b.id IS NOT NULL
)
SELECT id FROM b WHERE id IS NOT NULL`

const (
	// Whoever opens a batch again locks its row, too. So either that comes first, and the day stays; or it comes later, and
	// sees that rows of the batch are gone, whether they are yet or not.
	lockEndedSQL = `
SELECT b.id FROM {schema}.batch AS b WHERE b.id = ANY ($1::bigint[]) AND b.ended_at IS NOT NULL
ORDER BY b.id FOR NO KEY UPDATE SKIP LOCKED`
	countBatchesSQL = `SELECT count(*) FROM {schema}.batch AS b WHERE b.id = ANY ($1::bigint[])`
	thinSQL         = `UPDATE {schema}.batch AS b SET thinned = true WHERE b.id = ANY ($1::bigint[]) AND NOT b.thinned`
)

// Removes tasks without a batch from a day's table, the next $2 from the id $1 on, with their history.
const thinOutSQL = `
WITH step AS MATERIALIZED (
    SELECT a.id FROM {schema}.%[1]s AS a WHERE a.id > $1 AND a.batch_id IS NULL ORDER BY a.id LIMIT $2
    FOR UPDATE SKIP LOCKED
), removed AS (
    DELETE FROM {schema}.%[1]s WHERE id = ANY (ARRAY(SELECT id FROM step))
), gone AS (
    DELETE FROM {schema}.attempt WHERE task_id = ANY (ARRAY(SELECT id FROM step))
), asked AS (
    DELETE FROM {schema}.operation WHERE task_id = ANY (ARRAY(SELECT id FROM step))
), noted AS (
    DELETE FROM {schema}.audit WHERE task_id = ANY (ARRAY(SELECT id FROM step))
)
SELECT max(id), count(*) FROM step`

// A batch goes when it ended longer ago than retention ($1, microseconds) and no row of it is left: none lives by its
// counters, all of which have been summed, and none is in the archive. That look is one step along the index: asked for any
// row of a batch, the planner reads the table where most of it is of one batch.
const forgetBatchesSQL = `
WITH old AS MATERIALIZED (
    SELECT b.id FROM {schema}.batch AS b
    LEFT JOIN LATERAL (
        SELECT a.id FROM {schema}.task_archive AS a
        WHERE a.batch_id >= b.id AND a.batch_id <= b.id ORDER BY a.batch_id LIMIT 1) AS done ON true
    WHERE b.ended_at < now() - $1::bigint * interval '1 microsecond' AND done.id IS NULL
      AND b.total = b.succeeded + b.failed + b.cancelled + b.rolled_back + b.rollback_failed
      AND NOT EXISTS (SELECT FROM {schema}.batch_delta AS d WHERE d.batch_id = b.id)
    LIMIT 1000 FOR UPDATE OF b SKIP LOCKED
), counted AS (
    DELETE FROM {schema}.batch_delta WHERE batch_id = ANY (ARRAY(SELECT id FROM old))
), asked AS (
    DELETE FROM {schema}.operation WHERE batch_id = ANY (ARRAY(SELECT id FROM old))
), noted AS (
    DELETE FROM {schema}.audit WHERE batch_id = ANY (ARRAY(SELECT id FROM old))
)
DELETE FROM {schema}.batch WHERE id = ANY (ARRAY(SELECT id FROM old))`

// thin reports whether a day's table may go: all batches that have rows in it have ended. Then they are marked as having rows
// past their retention.
func (s *Store) thin(ctx context.Context, t dayTable) (free bool, err error) {
	err = s.do(ctx, "look for batches", func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			batches, err := collectIDs(tx.Query(ctx, fmt.Sprintf(s.schema.fill(dayBatchesSQL), t.name)))
			if err != nil || len(batches) == 0 {
				free = err == nil
				return err
			}
			ended, err := collectIDs(tx.Query(ctx, s.schema.fill(lockEndedSQL), batches))
			if err != nil {
				return err
			}
			var all int
			if err := tx.QueryRow(ctx, s.schema.fill(countBatchesSQL), batches).Scan(&all); err != nil {
				return err
			}
			if free = len(ended) == all; !free {
				return nil
			}
			_, err = tx.Exec(ctx, s.schema.fill(thinSQL), batches)
			return err
		})
	})
	return free, err
}

// thinOut removes from a day that has to stay what belongs to no batch: else one batch that never ends would keep all that
// finished while it was there.
func (s *Store) thinOut(ctx context.Context, t dayTable) (removed int64, err error) {
	text := fmt.Sprintf(s.schema.fill(thinOutSQL), t.name)
	for last := new(int64); last != nil; {
		var n int64
		err := s.do(ctx, "remove old tasks", func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, text, *last, forgetStep).Scan(&last, &n)
		})
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}
