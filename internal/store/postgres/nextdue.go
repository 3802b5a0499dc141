package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// NextDue returns how long it is until the next row is due that one of the wants could claim.
func (s *Store) NextDue(ctx context.Context, c store.Claim) (in time.Duration, ok bool, err error) {
	types, rollbacks := make([]string, len(c.Wants)), make([]bool, len(c.Wants))
	for i, w := range c.Wants {
		types[i], rollbacks[i] = w.Type, w.Phase == task.Rollback
	}
	var us *int64
	err = s.do(ctx, "look for the next due task", func(ctx context.Context, conn *pgx.Conn) error {
		return queryRow(ctx, conn, s.sql.NextDue, arg("types", types), arg("rollbacks", rollbacks),
			arg("regions", regions(c.Region))).Scan(&us)
	})
	switch {
	case err != nil:
		return 0, false, err
	case us == nil:
		return 0, false, nil
	}
	return microseconds(max(*us, 0)), true, nil
}

// microseconds is a duration; one longer than 292 years, forward or back, becomes as long as a duration can be.
func microseconds(us int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(max(min(us, most), -most)) * time.Microsecond
}
