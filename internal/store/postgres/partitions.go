package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Days are UTC days, by the server's clock. Partitions are made from daysBack to daysAhead of today: agents that come
// once in three days are enough, and a clock that steps back over midnight still finds its day.
const (
	daysBack  = 1
	daysAhead = 3
)

// The days that lack a partition, with their bounds. $1 is the archive's name, qualified and quoted.
const partitionsSQL = `
SELECT 'task_archive_' || to_char(day, 'YYYYMMDD'), to_char(day, 'YYYY-MM-DD'), to_char(day + 1, 'YYYY-MM-DD')
FROM (SELECT (now() AT TIME ZONE 'UTC')::date + n AS day FROM generate_series($2::integer, $3::integer) AS n) AS days
WHERE NOT EXISTS (
    SELECT FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass($1) AND c.relname = 'task_archive_' || to_char(day, 'YYYYMMDD'))
ORDER BY day`

// CREATE TABLE … PARTITION OF would lock the whole archive against every reader and writer. A table made apart and
// attached locks it only against others that do the same.
const (
	createPartition = `CREATE TABLE {schema}.%[1]s (LIKE {schema}.task_archive INCLUDING DEFAULTS INCLUDING CONSTRAINTS)`
	attachPartition = `ALTER TABLE {schema}.task_archive ATTACH PARTITION {schema}.%[1]s
    FOR VALUES FROM ('%[2]s 00:00:00+00') TO ('%[3]s 00:00:00+00')`
)

// makePartitions makes the archive's partitions for the days around today that lack one.
func (s *Store) makePartitions(ctx context.Context, conn *pgx.Conn) error {
	lacking, err := s.lackingDays(ctx, conn)
	if err != nil || len(lacking) == 0 {
		return err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", s.schema.lock()); err != nil {
			return err
		}
		// Whoever held the lock may have made them.
		if lacking, err = s.lackingDays(ctx, tx); err != nil {
			return err
		}
		for _, day := range lacking {
			for _, text := range []string{createPartition, attachPartition} {
				statement := fmt.Sprintf(s.schema.fill(text), day.name, day.from, day.to)
				if _, err := tx.Exec(ctx, statement); err != nil {
					return fmt.Errorf("%s: %w", day.name, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make partitions: %w", err)
	}
	return nil
}

// partitionDay is a partition to be made; from and to are dates.
type partitionDay struct{ name, from, to string }

// rowsQuerier is a connection or a transaction.
type rowsQuerier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (s *Store) lackingDays(ctx context.Context, q rowsQuerier) ([]partitionDay, error) {
	rows, err := q.Query(ctx, s.sql.partitions, s.schema.fill("{schema}.task_archive"), -daysBack, daysAhead)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (d partitionDay, err error) {
		err = row.Scan(&d.name, &d.from, &d.to)
		return d, err
	})
}
