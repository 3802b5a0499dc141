package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Days are UTC days, by the server's clock. Partitions are made from daysBack to daysAhead of today: agents that come
// once in three days are enough, and a clock that steps back over midnight still finds its day.
const (
	daysBack  = 1
	daysAhead = 3
)

// The days that lack a partition. $1 is the archive's name, qualified and quoted.
const partitionsSQL = `
SELECT day::timestamp AT TIME ZONE 'UTC'
FROM (SELECT (now() AT TIME ZONE 'UTC')::date + n AS day FROM generate_series($2::integer, $3::integer) AS n) AS days
WHERE NOT EXISTS (
    SELECT FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass($1) AND c.relname = 'task_archive_' || to_char(day, 'YYYYMMDD'))
ORDER BY day`

const makePlaceSQL = `SELECT {schema}.ensure_partition($1::timestamptz)`

// makePartitions makes the archive's partitions for the days around today that lack one, by a function with the rights of the
// schema's owner.
func (s *Store) makePartitions(ctx context.Context, conn *pgx.Conn) error {
	lacking, err := s.lackingDays(ctx, conn)
	if err != nil || len(lacking) == 0 {
		return err
	}
	err = s.naming(ctx, conn.PgConn().PID(), func() error {
		for _, day := range lacking {
			if _, err := conn.Exec(ctx, s.sql.makePlace, day); err != nil {
				return fmt.Errorf("%s: %w", day.Format(time.DateOnly), err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make partitions: %w", err)
	}
	return nil
}

// rowsQuerier is a connection or a transaction.
type rowsQuerier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (s *Store) lackingDays(ctx context.Context, q rowsQuerier) ([]time.Time, error) {
	rows, err := q.Query(ctx, s.sql.partitions, s.schema.fill("{schema}.task_archive"), -daysBack, daysAhead)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[time.Time])
}
