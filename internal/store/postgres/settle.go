package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/task"
)

// A settlement: rows that still match are locked, those that somebody else's transaction keeps are passed over, and
// what was locked moves to the archive or is released, with its history, all in one statement.
//
// The parameters are the columns of a table sorted by id. Finding the rows is a loop over primary key lookups, since a
// LATERAL with FOR UPDATE can be nothing else. Released rows find their values by width_bucket, a bisection of the ids.
// So there is no join, and nothing that the planner could do differently on a bad day. A row without claim is held by
// nobody; its state is not asked, lest the planner take another index than the primary key's. A row that is released
// keeps lease_until where something of the attempt may be at work until then. A first try that succeeded has no row of the
// history, so the archived row must say exactly what it resulted in: no result that an earlier, released attempt left.
const settleSQL = `
WITH hit AS MATERIALIZED (
    SELECT i.*, t.*, i.next IN ('succeeded', 'failed', 'cancelled', 'rolled_back', 'rollback_failed') AS finished
    FROM unnest($2::bigint[], $3::bigint[], $4::text[], $8::integer[], $9::integer[], $10::boolean[], $11::text[],
                $12::text[], $13::text[], $14::text[], $15::bigint[], $16::boolean[], $17::text[], $18::integer[],
                $19::bigint[], $20::text[], $21::boolean[], $22::text[], $23::text[], $24::text[], $25::boolean[])
        AS i (i_id, i_fence, next, next_attempt, next_deferrals, next_touched, verdict,
              next_error, next_result, next_output, started, keep, phase, ran_attempt,
              ran_fence, ran_error, heedless, new_progress, new_message, new_checkpoint, silent)
    CROSS JOIN LATERAL (
        SELECT * FROM {schema}.task AS held
        WHERE held.id = i.i_id AND held.fence = i.i_fence AND held.session = $1 AND held.claim IS NOT NULL
          AND NOT (i.heedless AND held.cancel_asked IS NOT NULL)
        FOR UPDATE SKIP LOCKED
    ) AS t
), archived AS (
    INSERT INTO {schema}.task_archive (
        id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
        created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
        outcome, error, result, output, started_at, finished_at, cancel_asked, cancel_by, message, progress, checkpoint,
        batch_id, round, cause, rollback_payload)
    SELECT id, type, next, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
        created_at, next_attempt, next_deferrals, next_touched, fence + 1, session, NULL, policy,
        CASE WHEN ($6::boolean[])[width_bucket(id, $2::bigint[])] THEN lease_until END,
        claimed_at, deadline, nullif(verdict, ''), nullif(next_error, ''),
        CASE WHEN state = 'rollback_running' THEN result WHEN keep OR silent THEN coalesce(nullif(next_result, '')::jsonb, result)
            ELSE nullif(next_result, '')::jsonb END,
        nullif(next_output, ''),
        CASE WHEN started >= 0 THEN now() - started * interval '1 microsecond' END, now(), cancel_asked, cancel_by,
        coalesce(nullif(new_message, ''), message), coalesce(nullif(new_progress, '')::jsonb, progress),
        coalesce(nullif(new_checkpoint, '')::jsonb, checkpoint), batch_id, round, cause, rollback_payload
    FROM hit WHERE finished
), gone AS (
    DELETE FROM {schema}.task WHERE id = ANY (ARRAY(SELECT id FROM hit WHERE finished))
), released AS (
    UPDATE {schema}.task AS t SET
        state = ($4::text[])[width_bucket(t.id, $2::bigint[])],
        run_at = CASE
            WHEN ($7::boolean[])[width_bucket(t.id, $2::bigint[])] THEN t.run_at
            WHEN ($6::boolean[])[width_bucket(t.id, $2::bigint[])] THEN greatest(t.lease_until,
                now() + ($5::bigint[])[width_bucket(t.id, $2::bigint[])] * interval '1 microsecond')
            ELSE now() + ($5::bigint[])[width_bucket(t.id, $2::bigint[])] * interval '1 microsecond' END,
        attempt = ($8::integer[])[width_bucket(t.id, $2::bigint[])],
        deferrals = ($9::integer[])[width_bucket(t.id, $2::bigint[])],
        ever_started = ($10::boolean[])[width_bucket(t.id, $2::bigint[])],
        outcome = coalesce(($11::text[])[width_bucket(t.id, $2::bigint[])], t.outcome),
        error = CASE WHEN ($11::text[])[width_bucket(t.id, $2::bigint[])] IS NULL THEN t.error
            ELSE nullif(($12::text[])[width_bucket(t.id, $2::bigint[])], '') END,
        result = CASE WHEN t.state = 'rollback_running' THEN t.result
            ELSE coalesce(nullif(($13::text[])[width_bucket(t.id, $2::bigint[])], '')::jsonb, t.result) END,
        cause = CASE
            WHEN t.state = 'rollback_running' OR ($4::text[])[width_bucket(t.id, $2::bigint[])] <> 'rollback_pending'
                THEN t.cause
            WHEN t.cancel_asked IS NOT NULL THEN 'cancelled'
            ELSE ($26::text[])[width_bucket(t.id, $2::bigint[])] END,
        progress = coalesce(nullif(($22::text[])[width_bucket(t.id, $2::bigint[])], '')::jsonb, t.progress),
        message = coalesce(nullif(($23::text[])[width_bucket(t.id, $2::bigint[])], ''), t.message),
        checkpoint = coalesce(nullif(($24::text[])[width_bucket(t.id, $2::bigint[])], '')::jsonb, t.checkpoint),
        lease_until = CASE WHEN ($6::boolean[])[width_bucket(t.id, $2::bigint[])] THEN t.lease_until END,
        fence = t.fence + 1, claim = NULL, claimed_at = NULL, cancel_asked = NULL, cancel_by = NULL, ping_due = NULL,
        detached = NULL
    WHERE t.id = ANY (ARRAY(SELECT id FROM hit WHERE NOT finished))
), history AS (
    INSERT INTO {schema}.attempt (
        task_id, fence, ran_fence, session, phase, attempt, outcome, error, output, result, state, started_at, ended_at)
    SELECT id, fence, ran_fence, session, phase, ran_attempt, verdict, nullif(ran_error, ''), nullif(next_output, ''),
        nullif(next_result, '')::jsonb, next,
        CASE WHEN started >= 0 THEN now() - started * interval '1 microsecond' END, now()
    FROM hit WHERE keep
), counted AS (
    INSERT INTO {schema}.batch_delta (
        batch_id, running, succeeded, failed, cancelled, undoing, rolled_back, rollback_failed, failures, attempts)
    SELECT batch_id, -count(*) FILTER (WHERE state = 'running'),
        count(*) FILTER (WHERE next = 'succeeded'), count(*) FILTER (WHERE next = 'failed'),
        count(*) FILTER (WHERE next = 'cancelled'),
        count(*) FILTER (WHERE next = 'rollback_pending') - count(*) FILTER (WHERE state = 'rollback_running'),
        count(*) FILTER (WHERE next = 'rolled_back'), count(*) FILTER (WHERE next = 'rollback_failed'),
        count(*) FILTER (WHERE next = 'failed'
            OR next = 'rollback_pending' AND state = 'running' AND cancel_asked IS NULL AND verdict <> 'cancelled'),
        count(*) FILTER (WHERE NOT silent)
    FROM hit WHERE batch_id IS NOT NULL GROUP BY batch_id
)
SELECT id FROM hit`

// What became of rows that a settlement passed over: still ours, so somebody keeps them (busy) or wants them cancelled
// although whoever decided that they go on ($4) did not know; settled before by the same hold (ended); or neither. Each
// lookup ends at its first row: an EXISTS could be turned into a scan of the table.
const settleToldSQL = `
SELECT ours.id IS NOT NULL, ours.cancel_asked IS NOT NULL AND i.heedless,
       archived.id IS NOT NULL OR released.id IS NOT NULL OR history.task_id IS NOT NULL
FROM unnest($2::bigint[], $3::bigint[], $4::boolean[]) WITH ORDINALITY AS i (id, fence, heedless, place)
LEFT JOIN LATERAL (
    SELECT t.id, t.cancel_asked FROM {schema}.task AS t
    WHERE t.id = i.id AND t.fence = i.fence AND t.session = $1 AND t.claim IS NOT NULL LIMIT 1) AS ours ON true
LEFT JOIN LATERAL (
    SELECT t.id FROM {schema}.task AS t
    WHERE t.id = i.id AND t.fence = i.fence + 1 AND t.session = $1
      AND t.state IN ('pending', 'retry_pending', 'rollback_pending') LIMIT 1) AS released ON true
LEFT JOIN LATERAL (
    SELECT a.task_id FROM {schema}.attempt AS a
    WHERE a.task_id = i.id AND a.fence = i.fence AND a.session = $1 LIMIT 1) AS history ON true
LEFT JOIN LATERAL (
    SELECT a.id FROM {schema}.task_archive AS a
    WHERE a.id = i.id AND a.fence = i.fence + 1 AND a.session = $1 LIMIT 1) AS archived ON true
ORDER BY i.place`

// Of rows that are kept from us, those that only an application keeps (FOR KEY SHARE lets this pass), or that have
// become free.
const settleKeptSQL = `
SELECT t.id FROM {schema}.task AS t
WHERE t.id = ANY ($1::bigint[])
FOR NO KEY UPDATE SKIP LOCKED`

// The points of Settle at which a store can crash.
const (
	failBefore    = "before the statement"       // nothing has happened
	failCommit    = "before the commit"          // the server takes all of it back
	failAfter     = "after the commit"           // all has happened, and the caller does not know
	failPartition = "before a partition is made" // only where the archive has no place for today
	failRepeat    = "before the statement again" // now it has
)

// Failpoints names the points at which Options.Fail is called.
func Failpoints() []string {
	return []string{failBefore, failCommit, failAfter, failPartition, failRepeat}
}

func (s *Store) failAt(point string) error {
	if s.fail == nil {
		return nil
	}
	return s.fail(point)
}

// Settle applies the ends of holds.
func (s *Store) Settle(ctx context.Context, session task.Session, rows []poll.Settlement) ([]lease.Answer, error) {
	answers := make([]lease.Answer, len(rows))
	if len(rows) == 0 {
		return answers, ctx.Err()
	}
	err := s.do(ctx, "settle tasks", func(ctx context.Context, conn *pgx.Conn) error {
		for _, places := range rounds(len(rows), func(i int) task.ID { return rows[i].ID }) {
			r := settling{s: s, conn: conn, session: session, rows: rows, answers: answers}
			if err := r.run(ctx, places); err != nil {
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

// rounds splits rows so that no id stands in a round twice, and sorts each round by id. It gives their places.
func rounds(n int, id func(int) task.ID) [][]int {
	places := make([]int, n)
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int {
		if c := cmp.Compare(id(a), id(b)); c != 0 {
			return c
		}
		return a - b
	})
	all := [][]int{make([]int, 0, n)}
	round := 0
	for i, p := range places {
		if i > 0 && id(places[i-1]) == id(p) {
			round++
		} else {
			round = 0
		}
		if round == len(all) {
			all = append(all, nil)
		}
		all[round] = append(all[round], p)
	}
	return all
}

// settling is one round of a Settle.
type settling struct {
	s       *Store
	conn    *pgx.Conn
	session task.Session
	rows    []poll.Settlement // of the whole call
	answers []lease.Answer
}

// A claim that meets a row which another has just claimed locks it before it sees that, and keeps it until its
// statement ends. Such a lock is waited for, in growing steps; one of an application is not: that may take long.
const (
	lockFirst = time.Millisecond
	lockLast  = 64 * time.Millisecond
)

// run settles the rows at places, which are sorted by id, and fills in their answers.
func (r *settling) run(ctx context.Context, places []int) error {
	before := map[task.ID]bool{} // kept by an application when last looked at
	for wait := lockFirst; ; wait *= 2 {
		missed, err := r.apply(ctx, places)
		if err != nil || len(missed) == 0 {
			return err
		}
		busy, err := r.told(ctx, missed)
		if err != nil || len(busy) == 0 || wait > lockLast {
			return err
		}
		kept, err := idSet(r.conn.Query(ctx, r.s.sql.kept, r.ids(busy)))
		if err != nil {
			return err
		}
		// A row that was kept twice in a row is; once, it may have become free between the two statements.
		places = slices.DeleteFunc(busy, func(p int) bool { id := r.rows[p].ID; return kept[id] && before[id] })
		if len(places) == 0 || !pause(ctx, wait) {
			return nil // they have their answer: busy
		}
		before = kept
	}
}

// apply settles the rows at places and gives the places of those that were passed over.
func (r *settling) apply(ctx context.Context, places []int) (missed []int, err error) {
	if err := r.s.failAt(failBefore); err != nil {
		return nil, err
	}
	some := make([]*poll.Settlement, len(places))
	for i, p := range places {
		some[i] = &r.rows[p]
	}
	applied, err := r.settle(ctx, some)
	if err != nil {
		return nil, err
	}
	slices.Sort(applied)
	for _, p := range places {
		if _, found := slices.BinarySearch(applied, int64(r.rows[p].ID)); found {
			r.answers[p] = lease.Applied
		} else {
			missed = append(missed, p)
		}
	}
	return missed, r.s.failAt(failAfter)
}

// settle sends rows that are done the short way, and the others, or all where that way is barred, the long one. It gives
// the ids of those that were applied.
func (r *settling) settle(ctx context.Context, some []*poll.Settlement) (applied []int64, err error) {
	var done, others []*poll.Settlement
	if !r.s.kept.lately(time.Now()) {
		done, others = split(some)
	}
	if len(done) == 0 {
		return r.s.settleSome(ctx, r.conn, r.session, some)
	}
	applied, err = r.s.settleDone(ctx, r.conn, r.session, done)
	switch {
	case code(err) == codeNoLock:
		r.s.kept.note(time.Now(), doneAgain)
		return r.s.settleSome(ctx, r.conn, r.session, some)
	case noPartition(err), badValue(err):
		return r.s.settleSome(ctx, r.conn, r.session, some)
	case err != nil:
		return nil, err
	}
	if len(applied) < len(done) { // some are lost, or belong to a batch
		others = append(others, r.missed(done, applied)...)
		slices.SortFunc(others, func(a, b *poll.Settlement) int { return cmp.Compare(a.ID, b.ID) })
	}
	if len(others) == 0 {
		return applied, nil
	}
	rest, err := r.s.settleSome(ctx, r.conn, r.session, others)
	return append(applied, rest...), err
}

// missed lists the rows that are not among those that were applied.
func (*settling) missed(rows []*poll.Settlement, applied []int64) []*poll.Settlement {
	slices.Sort(applied)
	return slices.DeleteFunc(rows, func(row *poll.Settlement) bool {
		_, found := slices.BinarySearch(applied, int64(row.ID))
		return found
	})
}

// split parts rows that are done from the others.
func split(some []*poll.Settlement) (done, others []*poll.Settlement) {
	done = make([]*poll.Settlement, 0, len(some))
	for _, row := range some {
		if isDone(row) {
			done = append(done, row)
		} else {
			others = append(others, row)
		}
	}
	return done, others
}

// told fills in the answers of rows that were passed over, and gives the places of the busy ones.
func (r *settling) told(ctx context.Context, missed []int) (busy []int, err error) {
	fences, unaware := make([]int64, len(missed)), make([]bool, len(missed))
	for i, p := range missed {
		fences[i], unaware[i] = int64(r.rows[p].Fence), heedless(&r.rows[p])
	}
	found, err := r.conn.Query(ctx, r.s.sql.told, int64(r.session), r.ids(missed), fences, unaware)
	if err != nil {
		return nil, err
	}
	var ours, asked, ended bool
	i := 0
	_, err = pgx.ForEachRow(found, []any{&ours, &asked, &ended}, func() error {
		place := missed[i]
		i++
		switch {
		case ours && asked:
			r.answers[place] = lease.Unaware
		case ours:
			r.answers[place] = lease.Busy
			busy = append(busy, place)
		case ended && !fault.Off(fault.Repeat):
			r.answers[place] = lease.Ended
		default:
			r.answers[place] = lease.Lost
		}
		return nil
	})
	return busy, err
}

func (r *settling) ids(places []int) []int64 {
	ids := make([]int64, len(places))
	for i, p := range places {
		ids[i] = int64(r.rows[p].ID)
	}
	return ids
}
