package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// Stats counts what waits and runs.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	stats := store.Stats{Due: map[string]int64{}, OldestDue: map[string]time.Duration{}, Orphans: map[string]int64{}}
	err := s.do(ctx, "count tasks", func(ctx context.Context, conn *pgx.Conn) error {
		declared, err := s.declared(ctx, conn, &stats)
		if err != nil {
			return err
		}
		if stats.BatchTasks, err = s.batchTasks(ctx, conn); err != nil {
			return err
		}
		var c store.TypeCount
		var due int64
		var oldest *int64
		return forEach(ctx, conn, []any{&c.Type, (*string)(&c.State), &c.N, &due, &oldest}, func() error {
			stats.Waiting = append(stats.Waiting, c)
			if c.State.Waiting() {
				if due > 0 {
					stats.Due[c.Type] += due
				}
				count(&stats, c, oldest, declared)
			}
			return nil
		}, s.sql.Stats)
	})
	return stats, err
}

// batchTasks counts the tasks of batches that have not ended.
func (s *Store) batchTasks(ctx context.Context, conn *pgx.Conn) (map[string]int64, error) {
	var waiting, running, rollingBack, succeeded, failed, cancelled, rolledBack, rollbackFailed int64
	err := queryRow(ctx, conn, s.sql.BatchTasks).Scan(&waiting, &running, &rollingBack, &succeeded, &failed, &cancelled,
		&rolledBack, &rollbackFailed)
	return map[string]int64{
		"waiting": waiting, "running": running, "rolling_back": rollingBack, "succeeded": succeeded, "failed": failed,
		"cancelled": cancelled, "rolled_back": rolledBack, "rollback_failed": rollbackFailed,
	}, err
}

// count adds what follows from rows that wait.
func count(stats *store.Stats, c store.TypeCount, oldest *int64, declared map[string]bool) {
	if oldest != nil {
		stats.OldestDue[c.Type] = max(stats.OldestDue[c.Type], microseconds(*oldest))
	}
	if !declared[c.Type] {
		stats.Orphans[c.Type] += c.N
	}
}

// declared counts the present agents and gathers what they claim.
func (s *Store) declared(ctx context.Context, conn *pgx.Conn, stats *store.Stats) (map[string]bool, error) {
	names := map[string]bool{}
	var types []string
	err := forEach(ctx, conn, []any{&types}, func() error {
		stats.AgentsPresent++
		for _, name := range types {
			names[name] = true
		}
		return nil
	}, s.sql.AgentTypes)
	return names, err
}
