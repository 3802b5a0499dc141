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

// makePartitions makes the archive's partitions for the days around today that lack one, by a function with the rights of the
// schema's owner.
func (s *Store) makePartitions(ctx context.Context, conn *pgx.Conn) error {
	lacking, err := s.lackingDays(ctx, conn)
	if err != nil || len(lacking) == 0 {
		return err
	}
	err = s.naming(ctx, conn.PgConn().PID(), func() error {
		for _, day := range lacking {
			if err := exec(ctx, conn, s.sql.EnsurePartition, arg("at", day)); err != nil {
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

func (s *Store) lackingDays(ctx context.Context, on querier) ([]time.Time, error) {
	rows, err := query(ctx, on, s.sql.MissingDays, arg("back", -daysBack), arg("ahead", daysAhead),
		arg("archive", s.schema.fill("{schema}.task_archive")))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[time.Time])
}
