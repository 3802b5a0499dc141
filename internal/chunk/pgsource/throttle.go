package pgsource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// oldest is how long ago the oldest transaction of clients began that is open in this database.
const oldest = `SELECT coalesce(extract(epoch FROM pg_catalog.clock_timestamp() - min(act.xact_start)), 0)::float8
FROM pg_catalog.pg_stat_activity act
WHERE act.datname = pg_catalog.current_database() AND act.backend_type = 'client backend' AND act.pid <> pg_catalog.pg_backend_pid()`

// Throttled is chunk.Source's.
func (s *Source) Throttled(ctx context.Context) (reason string, err error) {
	if s.o.OldestTransaction <= 0 && s.o.When == "" {
		return "", nil
	}
	err = s.read(ctx, slack, func(ctx context.Context, tx pgx.Tx, _ *shape) error {
		if s.o.OldestTransaction > 0 {
			var seconds float64
			if err := tx.QueryRow(ctx, oldest).Scan(&seconds); err != nil {
				return err
			}
			if age := time.Duration(seconds * float64(time.Second)); age > s.o.OldestTransaction {
				reason = fmt.Sprintf("a transaction has been open for %s, longer than %s", age.Round(time.Second), s.o.OldestTransaction)
				return nil
			}
		}
		if s.o.When == "" {
			return nil
		}
		waits, err := s.when(ctx, tx)
		if waits {
			reason = "the query of throttle returns true"
		}
		return err
	})
	return reason, err
}

// when runs the query of one's own. Its plan is its own business, too.
func (s *Source) when(ctx context.Context, tx pgx.Tx) (bool, error) {
	_, err := tx.Exec(ctx, `SELECT pg_catalog.set_config('enable_seqscan', 'on', true), pg_catalog.set_config('enable_bitmapscan', 'on', true),
		pg_catalog.set_config('enable_sort', 'on', true)`)
	if err != nil {
		return false, err
	}
	rows, err := tx.Query(ctx, s.o.When)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	var waits *bool
	if rows.Next() {
		if len(rows.FieldDescriptions()) != 1 || rows.FieldDescriptions()[0].DataTypeOID != boolean {
			return false, s.invalid("the query of throttle does not return one boolean", "write it as SELECT count(*) > 100 FROM …")
		}
		err = rows.Scan(&waits)
	}
	rows.Close()
	return waits != nil && *waits, errors.Join(err, rows.Err())
}

// boolean is the type's OID.
const boolean = 16
