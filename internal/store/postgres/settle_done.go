package postgres

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/task"
)

// What most settlements are: the task is done at its first try. The row leaves the hot table and enters the archive as
// it was, so there is nothing to lock first and no history to write, at two thirds of what settleSQL costs a row.
//
// The parameters are sorted by id; a row finds its values by width_bucket, a bisection of the ids. Rows that somebody
// keeps are waited for, so the wait has a bound of its own: past it, settleSQL passes them over.
//
// While nothing of a batch was claimed lately, rows of batches are left to settleSQL: those of none are spared the counting
// then, which is a twentieth of it all.
const doneText = `
WITH bound AS MATERIALIZED (
    SELECT set_config('lock_timeout', '` + doneWait + `', true) IS NOT NULL AS set
), gone AS (
    DELETE FROM {schema}.task AS t
    WHERE t.id = ANY ($2::bigint[]) AND t.fence = ($3::bigint[])[width_bucket(t.id, $2::bigint[])] AND t.session = $1
      AND t.claim IS NOT NULL AND (SELECT set FROM bound){plain}
    RETURNING t.*, width_bucket(t.id, $2::bigint[]) AS place
){counted}
INSERT INTO {schema}.task_archive (
    id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
    attempt, deferrals, ever_started, fence, session, policy, claimed_at, deadline, outcome, result, output, started_at,
    finished_at, cancel_asked, cancel_by, message, progress, checkpoint, batch_id, round, rollback_payload)
SELECT id, type, 'succeeded', priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
    created_at, attempt, 0, true, fence + 1, session, policy, claimed_at, deadline, 'succeeded',
    nullif(($4::text[])[place], '')::jsonb, nullif(($5::text[])[place], ''),
    now() - ($6::interval[])[place], now(), cancel_asked, cancel_by, message, progress, checkpoint, batch_id, round,
    rollback_payload
FROM gone
RETURNING id`

// doneCounted counts rows of batches; donePlain leaves them alone.
const (
	donePlain   = " AND t.batch_id IS NULL"
	doneCounted = `, counted AS (
    INSERT INTO {schema}.batch_delta (batch_id, running, succeeded, attempts)
    SELECT batch_id, -count(*), count(*), count(*) FROM gone WHERE batch_id IS NOT NULL GROUP BY batch_id
)`
)

func doneSQL(plain, counted string) string {
	return strings.NewReplacer("{plain}", plain, "{counted}", counted).Replace(doneText)
}

const (
	doneWait  = "40ms"
	doneAgain = 5 * time.Second // after rows were kept, how long settleSQL does all the work
	// batchesLast is how long rows of batches are reckoned with after one was claimed.
	batchesLast = time.Minute
)

// recent remembers that something has happened lately.
type recent struct{ until atomic.Int64 }

func (r *recent) lately(now time.Time) bool { return now.UnixNano() < r.until.Load() }

func (r *recent) note(now time.Time, lasts time.Duration) { r.until.Store(now.Add(lasts).UnixNano()) }

// isDone reports whether doneSQL says all there is to say of a settlement.
func isDone(r *poll.Settlement) bool {
	n := &r.Next
	return !r.Silent && !r.InHistory() && n.Deferrals == 0 && n.EverStarted && r.Started >= 0 && r.Notes.Empty()
}

// settleDone settles rows that are done, sorted by id and no id twice, and tells which were applied.
func (s *Store) settleDone(
	ctx context.Context, conn *pgx.Conn, session task.Session, rows []*poll.Settlement,
) (applied []int64, err error) {
	ids, fences, started := make([]int64, len(rows)), make([]int64, len(rows)), make([]pgtype.Interval, len(rows))
	var results, outputs []string
	for i, r := range rows {
		ids[i], fences[i] = int64(r.ID), int64(r.Fence)
		started[i] = pgtype.Interval{Microseconds: r.Started.Microseconds(), Valid: true}
		results = sparse(results, i, len(rows), storableResult(r.Outcome.Result))
		outputs = sparse(outputs, i, len(rows), storable(r.Outcome.Output))
	}
	text := s.sql.done
	if s.batched.lately(time.Now()) {
		text = s.sql.doneCounted
	}
	return s.collectSettled(ctx, conn, text, int64(session), ids, fences, results, outputs, started)
}

// sparse puts text at place i of n; nil stays nil while there is no text at all.
func sparse(all []string, i, n int, text string) []string {
	if text == "" {
		return all
	}
	if all == nil {
		all = make([]string, n)
	}
	all[i] = text
	return all
}
