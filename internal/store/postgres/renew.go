package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// A renewal writes lease_until and nothing else, so it stays a heap-only update. FOR NO KEY UPDATE passes an
// application that keeps the row with FOR KEY SHARE. There is no predicate on the state, so the primary key is the only
// way to go; a row without lease_until is held by nobody. The ids ($2) are sorted; width_bucket bisects them.
const renewSQL = `
WITH held AS MATERIALIZED (
    SELECT t.id FROM {schema}.task AS t
    WHERE t.id = ANY ($2::bigint[]) AND t.session = $1 AND t.lease_until IS NOT NULL
      AND t.fence = ($3::bigint[])[width_bucket(t.id, $2::bigint[])]
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}.task AS t SET lease_until = CASE
    WHEN ($5::boolean[])[width_bucket(t.id, $2::bigint[])]
    THEN now() + ($4::bigint[])[width_bucket(t.id, $2::bigint[])] * interval '1 microsecond'
    ELSE greatest(t.lease_until,
         now() + ($4::bigint[])[width_bucket(t.id, $2::bigint[])] * interval '1 microsecond') END
WHERE t.id = ANY (ARRAY(SELECT id FROM held))
RETURNING t.id`

// The rows of those passed over that are still ours: somebody keeps them.
const renewToldSQL = `
SELECT t.id FROM {schema}.task AS t
WHERE t.id = ANY ($2::bigint[]) AND t.session = $1 AND t.lease_until IS NOT NULL
  AND t.fence = ($3::bigint[])[width_bucket(t.id, $2::bigint[])]`

// Renew moves the ends of leases.
func (s *Store) Renew(ctx context.Context, session task.Session, rows []lease.Renewal) ([]lease.Answer, error) {
	answers := make([]lease.Answer, len(rows))
	if len(rows) == 0 {
		return answers, ctx.Err()
	}
	err := s.live(ctx, "renew leases", func(ctx context.Context, conn *pgx.Conn) error {
		for _, places := range rounds(len(rows), func(i int) task.ID { return rows[i].ID }) {
			if err := s.renewRound(ctx, conn, session, rows, places, answers); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// renewRound renews the rows at places, which are sorted by id, and fills in their answers. A lock that it meets is
// another agent's for the length of a statement (see settling), and waited for.
func (s *Store) renewRound(
	ctx context.Context, conn *pgx.Conn, session task.Session, rows []lease.Renewal, places []int, answers []lease.Answer,
) error {
	began := time.Now()
	for wait := lockFirst; ; wait *= 2 {
		n := len(places)
		ids, fences, left, exact := make([]int64, n), make([]int64, n), make([]int64, n), make([]bool, n)
		for i, p := range places {
			r := rows[p]
			ids[i], fences[i] = int64(r.ID), int64(r.Fence)
			left[i], exact[i] = (r.Window - r.Age - time.Since(began)).Microseconds(), r.Exact
		}
		applied, err := collectIDs(conn.Query(ctx, s.sql.renew, int64(session), ids, fences, left, exact))
		if err != nil {
			return err
		}
		var ours map[task.ID]bool
		if len(applied) < n {
			if ours, err = collectIDs(conn.Query(ctx, s.sql.renewTold, int64(session), ids, fences)); err != nil {
				return err
			}
		}
		var busy []int
		for _, p := range places {
			switch id := rows[p].ID; {
			case applied[id]:
				answers[p] = lease.Applied
			case ours[id]:
				answers[p] = lease.Busy
				busy = append(busy, p)
			default:
				answers[p] = lease.Lost
			}
		}
		if len(busy) == 0 || wait > lockLast || !pause(ctx, wait) {
			return nil
		}
		places = busy
	}
}
