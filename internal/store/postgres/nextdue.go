package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/task"
)

// The first row of each index range that the wants could claim from; $1 types, $2 whether they are rollbacks, $3
// regions. In microseconds from now.
const nextDueText = `
SELECT (extract(epoch FROM min(first.run_at) - now()) * 1000000)::bigint FROM (
    SELECT r.run_at FROM {ranges} CROSS JOIN LATERAL ({due}) AS r WHERE NOT w.rollback
    UNION ALL
    SELECT r.run_at FROM {ranges} CROSS JOIN LATERAL ({undo}) AS r WHERE w.rollback
) AS first`

const (
	nextRanges = `unnest($1::text[], $2::boolean[]) AS w (type, rollback)
    CROSS JOIN unnest($3::text[]) AS g (region) CROSS JOIN generate_series(10, -10, -1) AS p (priority)`
	nextRange = `
        SELECT t.run_at FROM {schema}.task AS t
        WHERE t.state {states} AND t.type = w.type AND coalesce(t.region, '') = g.region AND t.priority = p.priority
        ORDER BY t.run_at, t.id LIMIT 1`
)

func nextDueSQL() string {
	return strings.NewReplacer(
		"{ranges}", nextRanges,
		"{due}", strings.Replace(nextRange, "{states}", startable, 1),
		"{undo}", strings.Replace(nextRange, "{states}", "= 'rollback_pending'", 1),
	).Replace(nextDueText)
}

// NextDue tells how long it is until the next row is due that one of the wants could claim.
func (s *Store) NextDue(ctx context.Context, c poll.Claim) (in time.Duration, ok bool, err error) {
	types, undo := make([]string, len(c.Wants)), make([]bool, len(c.Wants))
	for i, w := range c.Wants {
		types[i], undo[i] = w.Type, w.Phase == task.Rollback
	}
	var us *int64
	err = s.do(ctx, "look for the next due task", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, s.sql.nextDue, types, undo, regions(c.Region)).Scan(&us)
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
