package postgres

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/task"
)

// A sweep takes rows whose lease has ended or whose session is not present; a detached row depends on no session. A
// session that is not present itself takes none, nor one that believes that it is another time ($4): it may be the clock
// that has moved, and then everybody looks dead. Nor does it take rows of another session whose presence is longer than
// the clock is known not to have jumped ($5): it may be alive. One that was seen in the future was seen before the clock was
// set back: it is present once it has been seen again. Only running rows are looked at, all of them: there are as many as
// there are slots. Of two sweeps one gets a row; SKIP LOCKED spares the other the wait, and a row that an application
// keeps is left for later.
const sweepSQL = `
WITH present AS MATERIALIZED (
    SELECT a.session FROM {schema}.agent AS a WHERE a.present_until > now() AND a.seen_at <= now() + interval '1 second'
), spared AS MATERIALIZED (
    SELECT a.session FROM {schema}.agent AS a
    WHERE a.session <> $1 AND a.present_until - a.seen_at > $5::bigint * interval '1 microsecond'
), dead AS MATERIALIZED (
    SELECT t.id, t.session = ANY (ARRAY(SELECT session FROM present)) AS present, t.detached FROM {schema}.task AS t
    WHERE t.state IN ('running', 'rollback_running') AND EXISTS (SELECT FROM present AS p WHERE p.session = $1)
      AND now() BETWEEN $4::timestamptz - interval '0.5 second' AND $4::timestamptz + interval '0.5 second'
      AND (t.session = ANY (ARRAY(SELECT session FROM spared))) IS NOT TRUE
      AND (t.lease_until <= now() OR t.lease_until IS NULL
           OR t.detached IS NOT TRUE AND (t.session = ANY (ARRAY(SELECT session FROM present))) IS NOT TRUE)
    LIMIT $3::bigint
    FOR UPDATE OF t SKIP LOCKED
)
` + judgeText

// judgeText gives the rows of a CTE, dead, to the session $1 for as long as $2 says. A judge needs none of their documents.
// The judge's hold depends on its
// presence as any other does.
const judgeText = `UPDATE {schema}.task AS t SET
    fence = {fence}, session = $1, claim = 0, lease_until = now() + $2::bigint * interval '1 microsecond',
    detached = NULL, ping_due = NULL
WHERE t.id = ANY (ARRAY(SELECT id FROM dead))
RETURNING {columns},
    t.id = ANY (ARRAY(SELECT id FROM dead WHERE present)), t.id = ANY (ARRAY(SELECT id FROM dead WHERE detached)),
    t.cancel_asked IS NOT NULL AND t.state = 'running',
    coalesce((extract(epoch FROM t.deadline - now()) * 1000000)::bigint, 0)`

// judging fills in which fence the judge gets.
func judging(text, fence string) string {
	return strings.NewReplacer("{fence}", fence, "{columns}", withoutDocuments()).Replace(text)
}

// Sweep claims dead rows for judgement.
func (s *Store) Sweep(
	ctx context.Context, session task.Session, limit int, judge time.Duration, view func() lease.View,
) (dead []poll.Swept, err error) {
	if limit <= 0 {
		return nil, ctx.Err()
	}
	err = s.do(ctx, "sweep", func(ctx context.Context, conn *pgx.Conn) error {
		v := view()
		rows, err := conn.Query(ctx, s.sql.sweep, int64(session), judge.Microseconds(), int64(limit), v.Now, v.Calm.Microseconds())
		if err != nil {
			return err
		}
		dead, err = scanSwept(rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	return dead, nil
}

func scanSwept(rows pgx.Rows) ([]poll.Swept, error) {
	defer rows.Close()
	var dead []poll.Swept
	var r taskRow
	for rows.Next() && r.err == nil {
		d := poll.Swept{Task: r.next(rows), Present: r.bool(), Detached: r.bool()}
		d.RanFence, d.CancelAsked, d.Left = d.Fence-1, r.bool(), microseconds(r.int(0))
		dead = append(dead, d)
	}
	rows.Close()
	return dead, cmp.Or(rows.Err(), r.err)
}
