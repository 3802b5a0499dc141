package postgres

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// priorities is how many there are, from highest to -highest.
const (
	highest    = 10
	priorities = 2*highest + 1
)

// A claim, for each want: the priorities from high to low, in each the due rows in order, until n are found. Every
// range is one walk along the index, and nothing is looked at beyond the row that ends it.
//
// The rows are found and locked in a CTE that is computed once; a LIMIT in a subquery that the planner may run again
// would take too many. The update then goes by primary key.
//
// Nothing of a batch that is being stopped starts. The ranges pass over what they know of; that is looked up once, and only
// if a row of a batch comes by. What was committed since this statement began only reserve_start can see: it is asked once for
// each batch, when its rows are locked, and counts them.
//
// Nor does it take more than so many bytes ($11), of runs and of rollbacks each: in the order of the wants, rows are taken
// until those before come to that. Only where all of them together are more (large) is that counted row by row, which costs
// a microsecond each; the window has no order of its own, so it goes by that of the loops. What is too large for any agent
// is taken without its documents, to be rejected.
//
// $8 and $9 are the floors (see floors.go), one for each place in (want, region, priority); empty arrays: none.
const claimText = `
WITH want AS MATERIALIZED (
    SELECT w.*, now() + length * interval '1 microsecond' AS lease_until,
        nullif(deadline, 0) * interval '1 microsecond' AS time_left
    FROM unnest($3::text[], $4::boolean[], $5::integer[], $6::bigint[], $7::bigint[], $10::bigint[])
        WITH ORDINALITY AS w (type, rollback, n, length, policy, deadline, place)
), due AS MATERIALIZED (
    SELECT found.id, found.batch_id, found.bytes, false AS rollback FROM want AS w CROSS JOIN LATERAL (
        SELECT r.id, r.batch_id, r.bytes
        FROM generate_series(10, -10, -1) AS p (priority) CROSS JOIN LATERAL ({due}) AS r LIMIT w.n
    ) AS found WHERE NOT w.rollback
    UNION ALL
    SELECT found.id, NULL, found.bytes, true FROM want AS w CROSS JOIN LATERAL (
        SELECT r.id, r.bytes
        FROM generate_series(10, -10, -1) AS p (priority) CROSS JOIN LATERAL ({undo}) AS r LIMIT w.n
    ) AS found WHERE w.rollback
), large AS MATERIALIZED (
    SELECT coalesce(sum(d.bytes) > $11::float8, false) AS yes FROM due AS d
), picked AS MATERIALIZED (
    SELECT d.id, d.batch_id FROM due AS d WHERE NOT (SELECT yes FROM large)
    UNION ALL
    SELECT f.id, f.batch_id FROM (
        SELECT d.id, d.batch_id, CASE WHEN d.rollback
            THEN sum(CASE WHEN d.rollback THEN d.bytes END) OVER (ROWS UNBOUNDED PRECEDING)
            ELSE sum(CASE WHEN NOT d.rollback THEN d.bytes END) OVER (ROWS UNBOUNDED PRECEDING) END - d.bytes AS before
        FROM due AS d WHERE (SELECT yes FROM large)
    ) AS f WHERE f.before < $11::float8
), barred AS MATERIALIZED (
    SELECT each.batch_id FROM (
        SELECT p.batch_id, count(*) AS n FROM picked AS p WHERE p.batch_id IS NOT NULL GROUP BY p.batch_id
    ) AS each
    WHERE NOT {schema}.reserve_start(each.batch_id, each.n)
)
UPDATE {schema}.task AS t SET
    state = CASE WHEN w.rollback THEN 'rollback_running' ELSE 'running' END,
    session = $1, claim = $2, fence = ` + nextFence + `, attempt = greatest(least(t.attempt, 1000000), 0) + 1, policy = w.policy,
    claimed_at = now(), lease_until = w.lease_until, deadline = coalesce(t.deadline, t.run_at + w.time_left)
FROM want AS w
WHERE t.id = ANY (ARRAY(
      SELECT p.id FROM picked AS p
      WHERE p.batch_id IS NULL OR p.batch_id <> ALL (ARRAY(SELECT b.batch_id FROM barred AS b))))
  AND w.type = t.type AND w.rollback = (t.state = 'rollback_pending')
RETURNING {columns}, {unfit}, nullif((SELECT yes FROM large), false)`

// One region: the range itself.
const rangeText = `
            SELECT t.id, t.run_at, t.batch_id, {bytes} AS bytes FROM {schema}.task AS t
            WHERE t.state {states} AND t.type = w.type AND coalesce(t.region, '') = {region} AND t.priority = p.priority
              AND t.run_at <= now()
              AND (t.run_at, t.id) > (coalesce(($8::timestamptz[])[{place}], '-infinity'),
                                      coalesce(($9::bigint[])[{place}], 0))
            ORDER BY t.run_at, t.id LIMIT w.n
            FOR UPDATE OF t SKIP LOCKED
        `

// Several regions ($12): their ranges, merged by due time. This may lock rows that are not taken, n a region at most,
// for the length of the statement: other claims pass over them meanwhile.
const mergeText = `
            SELECT each.id, each.batch_id, each.bytes FROM unnest($12::text[]) WITH ORDINALITY AS g (region, place)
            CROSS JOIN LATERAL ({range}) AS each
            ORDER BY each.run_at, each.id LIMIT w.n
        `

// Rows that may start.
const startable = `IN ('pending', 'retry_pending')
              AND (t.batch_id IS NULL OR t.batch_id <> ALL (ARRAY(
                  SELECT b.id FROM {schema}.batch AS b WHERE b.stopping AND b.ended_at IS NULL)))`

const (
	oneRegion   = false
	manyRegions = true
)

// claimSQL puts the statement together for agents of no region (oneRegion), or for those of one (manyRegions: its
// rows, and rows of none).
func claimSQL(merge bool) string {
	one, region, place := rangeText, "''", "(w.place - 1) * 21 + 11 - p.priority"
	if merge {
		one = strings.Replace(mergeText, "{range}", rangeText, 1)
		region, place = "g.region", "((w.place - 1) * 2 + g.place - 1) * 21 + 11 - p.priority"
	}
	one = strings.NewReplacer("{region}", region, "{place}", place, "{bytes}", rowBytes).Replace(one)
	return strings.NewReplacer(
		"{due}", strings.Replace(one, "{states}", startable, 1),
		"{undo}", strings.Replace(one, "{states}", "= 'rollback_pending'", 1),
		"{columns}", fitDocuments(), "{unfit}", unfit,
	).Replace(claimText)
}

// regions lists those whose rows an agent of the region claims.
func regions(region string) []string {
	if region == "" {
		return []string{""}
	}
	return []string{"", region}
}

// Claim takes due rows. Behind a floor rows may have appeared since it was set: a want that comes back short is asked
// for once more without one, so a short answer always means that there is no more; unless its bytes are bounded, and cut it.
func (s *Store) Claim(ctx context.Context, c poll.Claim) ([]task.Task, error) {
	c.Wants = slices.DeleteFunc(slices.Clone(c.Wants), func(w poll.Want) bool { return w.N <= 0 })
	if len(c.Wants) == 0 {
		return nil, ctx.Err()
	}
	var all []task.Task
	var isCut bool
	err := s.do(ctx, "claim tasks", func(ctx context.Context, conn *pgx.Conn) error {
		look := s.floors.look(c)
		rows, cut, err := s.claim(ctx, conn, c, look)
		if err != nil {
			return err
		}
		all, isCut = rows, cut
		again := c
		again.Wants = s.floors.note(look, rows, cut)
		if len(again.Wants) == 0 {
			return nil
		}
		look = s.floors.look(again)
		if rows, cut, err = s.claim(ctx, conn, again, look); err != nil {
			return err
		}
		s.floors.note(look, rows, cut)
		all, isCut = append(all, rows...), isCut || cut
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c.Cut != nil {
		*c.Cut = isCut
	}
	if slices.ContainsFunc(all, func(t task.Task) bool { return t.Batch != 0 }) {
		s.batched.note(time.Now(), batchesLast)
	}
	inOrder(all, c.Wants)
	return all, nil
}

// claim runs the statement to its end, commit included.
func (s *Store) claim(ctx context.Context, conn *pgx.Conn, c poll.Claim, l *look) (tasks []task.Task, cut bool, err error) {
	text := s.sql.claim
	if c.Region != "" {
		text = s.sql.claimRegion
	}
	rows, err := conn.Query(ctx, text, claimArgs(c, l)...)
	if err != nil {
		return nil, false, err
	}
	room := 0
	for _, w := range c.Wants {
		room += w.N
	}
	tasks, err = scanClaimed(rows, min(room, 4096), func(r *taskRow) { cut = r.bool() || cut })
	return tasks, cut, err
}

func claimArgs(c poll.Claim, l *look) []any {
	n := len(c.Wants)
	types, undo, most := make([]string, n), make([]bool, n), make([]int32, n)
	length, policy, deadline := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, w := range c.Wants {
		types[i], undo[i], most[i] = w.Type, w.Phase == task.Rollback, int32(min(w.N, 1<<30))
		length[i], policy[i], deadline[i] = w.Window.Microseconds(), int64(w.Policy), w.Deadline.Microseconds()
	}
	args := []any{int64(c.Session), c.Number, types, undo, most, length, policy, l.at, l.id, deadline, math.Inf(1)}
	if c.Bytes > 0 {
		args[len(args)-1] = float64(c.Bytes)
	}
	if c.Region != "" {
		args = append(args, regions(c.Region))
	}
	return args
}

// inOrder sorts claimed rows as they are handed out: want by want, then priority, due time, id.
func inOrder(rows []task.Task, wants []poll.Want) {
	place := func(t *task.Task) int {
		return slices.IndexFunc(wants, func(w poll.Want) bool { return w.Type == t.Type && w.Phase == t.Phase() })
	}
	slices.SortFunc(rows, func(a, b task.Task) int {
		return cmp.Or(
			cmp.Compare(place(&a), place(&b)), cmp.Compare(b.Priority, a.Priority),
			a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID),
		)
	})
}

func claimedSQL() string {
	return `SELECT ` + fitDocuments() + `, ` + unfit + ` FROM {schema}.task AS t
WHERE t.session = $1 AND t.claim = $2 AND t.state IN ('running', 'rollback_running')
ORDER BY t.priority DESC, t.run_at, t.id`
}

// Claimed reads back what a claim took and the session still holds.
func (s *Store) Claimed(ctx context.Context, session task.Session, number int64) (tasks []task.Task, err error) {
	err = s.do(ctx, "read back a claim", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, s.sql.claimed, int64(session), number)
		if err != nil {
			return err
		}
		tasks, err = scanClaimed(rows, 0, func(*taskRow) {})
		return err
	})
	return tasks, err
}

// scanClaimed reads rows of rowColumns, and why each is unfit, to the end and closes them: with no error, the statement is
// committed. rest reads what else a row has.
func scanClaimed(rows pgx.Rows, room int, rest func(*taskRow)) ([]task.Task, error) {
	defer rows.Close()
	tasks := make([]task.Task, 0, room)
	var r taskRow
	for rows.Next() && r.err == nil {
		t := r.next(rows)
		t.Unfit = r.text("")
		if t.Fence > store.MaxFence {
			t.Unfit = store.UnfitFence()
		}
		rest(&r)
		tasks = append(tasks, t)
	}
	rows.Close()
	if fault.Off(fault.ReadToEnd) && len(tasks) > 0 {
		return tasks, r.err
	}
	return tasks, cmp.Or(rows.Err(), r.err)
}
