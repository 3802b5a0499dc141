package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/task"
)

// Adopting is a sweep of one row ($3, $4) that depends on no session, or on this one, whatever its window says: the
// attempt itself says that it is over. The session that judges the row already (claim 0, and the next fence) gets it
// again, with the fence that it has: its first reply may have been lost.
const adoptSQL = `
WITH mine AS MATERIALIZED (
    SELECT t.id, t.session, t.detached FROM {schema}.task AS t
    WHERE t.id = $3 AND (t.fence = $4 AND t.claim > 0 AND (t.detached OR t.session = $1)
                         OR t.fence = $4 + 1 AND t.claim = 0 AND t.session = $1)
    FOR UPDATE OF t SKIP LOCKED
), dead AS MATERIALIZED (
    SELECT m.id, m.detached, EXISTS (
        SELECT FROM {schema}.agent AS a WHERE a.session = m.session AND a.present_until > now()
          AND a.seen_at <= now() + interval '1 second') AS present
    FROM mine AS m
)
` + judgeText

// What stands in the way of adopting the attempt $2 of the task $1: somebody keeps the row, or another
// session has it, to run or to judge (busy); it has been judged as failed or rejected, which the history says (ended).
const judgedSQL = `
SELECT
    EXISTS (SELECT FROM {schema}.task AS t
            WHERE t.id = $1 AND (t.fence = $2 AND t.claim > 0 OR t.fence = $2 + 1 AND t.claim = 0)),
    EXISTS (SELECT FROM {schema}.attempt AS h
            WHERE h.task_id = $1 AND h.ran_fence = $2 AND h.outcome IN ('failed', 'rejected'))`

// Adopt claims for judgement the row of an attempt that says it is over.
func (s *Store) Adopt(
	ctx context.Context, session task.Session, id task.ID, f task.Fence, judge time.Duration,
) (swept *poll.Swept, answer lease.Answer, err error) {
	err = s.do(ctx, "adopt a task", func(ctx context.Context, conn *pgx.Conn) error {
		for wait := lockFirst; ; wait *= 2 {
			rows, err := conn.Query(ctx, s.sql.adopt, int64(session), judge.Microseconds(), int64(id), int64(f))
			if err != nil {
				return err
			}
			found, err := scanSwept(rows)
			if err != nil {
				return err
			}
			if len(found) > 0 {
				swept, answer = &found[0], lease.Applied
				return nil
			}
			var busy, ended bool
			if err := conn.QueryRow(ctx, s.sql.judged, int64(id), int64(f)).Scan(&busy, &ended); err != nil {
				return err
			}
			switch {
			case busy:
				answer = lease.Busy
			case ended:
				answer = lease.Ended
			default:
				answer = lease.Lost
			}
			if answer != lease.Busy || wait > lockLast || !pause(ctx, wait) {
				return nil
			}
		}
	})
	return swept, answer, err
}
