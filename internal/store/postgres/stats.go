package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/ops"
)

// The hot table by type and state, with the age in microseconds of the oldest row that is due.
const statsSQL = `
SELECT type, state, count(*), (extract(epoch FROM now() - min(run_at) FILTER (WHERE run_at <= now())) * 1000000)::bigint
FROM {schema}.task GROUP BY type, state ORDER BY type, state`

// An observer (no workers) claims nothing, so it counts as none of the agents, and what it declares waits all the same.
const agentsSQL = `SELECT types FROM {schema}.agent WHERE present_until > now() AND workers > 0`

// The planner's estimate: to count the archive could take minutes. $1 is its name, qualified and quoted.
const archivedSQL = `
SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint
FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = to_regclass($1)`

// The tasks of batches that have not ended: what folds have come by, and what was counted since.
const batchTasksSQL = `
SELECT coalesce(sum(n.total - n.running - n.undoing - n.succeeded - n.failed - n.cancelled - n.rolled_back
        - n.rollback_failed), 0)::bigint,
    coalesce(sum(n.running), 0)::bigint, coalesce(sum(n.undoing), 0)::bigint,
    coalesce(sum(n.succeeded), 0)::bigint, coalesce(sum(n.failed), 0)::bigint,
    coalesce(sum(n.cancelled), 0)::bigint, coalesce(sum(n.rolled_back), 0)::bigint,
    coalesce(sum(n.rollback_failed), 0)::bigint
FROM (
    SELECT total, running, succeeded, failed, cancelled, undoing, rolled_back, rollback_failed FROM {schema}.batch
    WHERE ended_at IS NULL
    UNION ALL
    SELECT d.total, d.running, d.succeeded, d.failed, d.cancelled, d.undoing, d.rolled_back, d.rollback_failed
    FROM {schema}.batch_delta AS d JOIN {schema}.batch AS b ON b.id = d.batch_id AND b.ended_at IS NULL
) AS n`

// Stats counts what waits and runs.
func (s *Store) Stats(ctx context.Context) (ops.Stats, error) {
	stats := ops.Stats{OldestDue: map[string]time.Duration{}, Orphans: map[string]int64{}}
	err := s.do(ctx, "count tasks", func(ctx context.Context, conn *pgx.Conn) error {
		declared, err := s.declared(ctx, conn, &stats)
		if err != nil {
			return err
		}
		if stats.BatchTasks, err = s.batchTasks(ctx, conn); err != nil {
			return err
		}
		archive := s.schema.fill("{schema}.task_archive")
		if err := conn.QueryRow(ctx, s.sql.archived, archive).Scan(&stats.Archived); err != nil {
			return err
		}
		rows, err := conn.Query(ctx, s.sql.stats)
		if err != nil {
			return err
		}
		var c ops.TypeCount
		var oldest *int64
		_, err = pgx.ForEachRow(rows, []any{&c.Type, (*string)(&c.State), &c.N, &oldest}, func() error {
			stats.Waiting = append(stats.Waiting, c)
			if c.State.Waiting() {
				count(&stats, c, oldest, declared)
			}
			return nil
		})
		return err
	})
	return stats, err
}

// batchTasks counts the tasks of batches that have not ended.
func (s *Store) batchTasks(ctx context.Context, conn *pgx.Conn) (map[string]int64, error) {
	var waiting, running, undoing, succeeded, failed, cancelled, rolledBack, rollbackFailed int64
	err := conn.QueryRow(ctx, s.sql.batchTasks).Scan(&waiting, &running, &undoing, &succeeded, &failed, &cancelled,
		&rolledBack, &rollbackFailed)
	return map[string]int64{
		"waiting": waiting, "running": running, "undoing": undoing, "succeeded": succeeded, "failed": failed,
		"cancelled": cancelled, "rolled_back": rolledBack, "rollback_failed": rollbackFailed,
	}, err
}

// count adds what follows from rows that wait.
func count(stats *ops.Stats, c ops.TypeCount, oldest *int64, declared map[string]bool) {
	if oldest != nil {
		stats.OldestDue[c.Type] = max(stats.OldestDue[c.Type], microseconds(*oldest))
	}
	if !declared[c.Type] {
		stats.Orphans[c.Type] += c.N
	}
}

// declared counts the present agents and gathers what they claim.
func (s *Store) declared(ctx context.Context, conn *pgx.Conn, stats *ops.Stats) (map[string]bool, error) {
	rows, err := conn.Query(ctx, s.sql.agents)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	var types []string
	_, err = pgx.ForEachRow(rows, []any{&types}, func() error {
		stats.AgentsPresent++
		for _, name := range types {
			names[name] = true
		}
		return nil
	})
	return names, err
}
