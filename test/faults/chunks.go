//go:build linux

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/faults/script"
)

// kindMark is the type of the tasks of a chunk plan, each of which marks the rows of its range that are not marked.
const kindMark = "mark"

const (
	chunksAhead  = 6
	insertEvery  = 500 * time.Millisecond
	firstItems   = 500
	rejectedMost = 2 // how often a range is rejected: one that fails in three passes is not planned any more
)

// chunksSQL makes the table that is cut, and has each chunk written down in the transaction that inserts it.
const chunksSQL = `
CREATE TABLE item (id bigint PRIMARY KEY, status int NOT NULL DEFAULT 0, marks int NOT NULL DEFAULT 0);
CREATE TABLE chunk_step (
    serial bigint GENERATED ALWAYS AS IDENTITY, task bigint, pass int, after_key bigint, through_key bigint, live bigint);
CREATE FUNCTION chunk_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.chunk_step (task, pass, after_key, through_key, live)
    SELECT NEW.task_id, NEW.planned, coalesce(NEW.after_key::bigint, 0), NEW.through_key::bigint,
        (SELECT count(*) FROM leasehold.task AS t WHERE t.type = '` + kindMark + `');
    RETURN NULL;
END $$;
CREATE TRIGGER chunk_step AFTER INSERT ON leasehold.chunk_range FOR EACH ROW EXECUTE FUNCTION chunk_step();
`

// declareChunks is the plan, in an agent's configuration.
func (w *world) declareChunks() string {
	if w.o.Items == 0 {
		return ""
	}
	return fmt.Sprintf(`chunks "items" {
  task   = %q
  size   = 20
  ahead  = %d
  follow = "1s"
  source {
    table = "item"
    key   = "id"
    where = "status = 0"
  }
}
`, kindMark, chunksAhead)
}

// openItems makes the table, before agents start.
func (w *world) openItems(t testing.TB) {
	t.Helper()
	if w.o.Items == 0 {
		return
	}
	_, err := w.app.Exec(t.Context(), chunksSQL)
	require.NoError(t, err)
	_, err = w.app.Exec(t.Context(), `INSERT INTO item (id) SELECT 3 * n + (n / 40) * 1000 FROM generate_series(1, $1::int) AS n`, firstItems)
	require.NoError(t, err)
}

// insertItems inserts rows with gaps between their keys until ctx ends. Some are committed late, after rows with higher keys.
func (w *world) insertItems(ctx context.Context) {
	if w.o.Items == 0 {
		return
	}
	r := rand.New(rand.NewPCG(w.o.Seed, 7))
	next := int64(1_000_000)
	var late []int64
	for {
		sleepUntil(ctx, time.Now().Add(upTo(r, insertEvery)))
		if ctx.Err() != nil {
			return
		}
		some := late
		late = nil
		for range r.IntN(w.o.Items) {
			next += 1 + r.Int64N(9)
			if r.IntN(5) == 0 {
				late = append(late, next)
			} else {
				some = append(some, next)
			}
		}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
		_, _ = w.app.Exec(call, `INSERT INTO item (id) SELECT unnest($1::bigint[])`, some) // the server may be away
		cancel()
	}
}

// chunksLeft returns how much the plan has to do.
const chunksLeft = `SELECT (SELECT count(*) FROM item WHERE status = 0)
	+ (SELECT count(*) FROM leasehold.batch WHERE NOT sealed AND name LIKE 'chunks %')`

// mark marks the rows of a range, or fails in one of many ways.
func (c *call) mark() {
	d := c.envelope.Data
	after, t := int64(0), c.envelope.Task
	if d.After != nil {
		_, _ = fmt.Sscan(*d.After, &after)
	}
	var through int64
	_, _ = fmt.Sscan(d.Through, &through)
	ctx, cancel := context.WithTimeout(c.endpoint.ctx, handlerWithin)
	defer cancel()
	if _, err := c.app.Exec(ctx, `UPDATE item SET status = 1, marks = marks + 1 WHERE id > $1 AND id <= $2 AND status = 0`, after, through); err != nil {
		c.answer("failed", http.StatusInternalServerError, err.Error())
		return
	}
	c.answer("succeeded", http.StatusOK, fmt.Sprintf(`{"fence": %d}`, t.Fence))
}

// markDeed is what an attempt at a chunk does, by chance. A range is rejected for good a few times only.
func (e *endpoint) markDeed(through string) script.Deed {
	deed := []script.Deed{
		script.OK, script.OK, script.OK, script.OK, script.OK, script.OK, script.Work, script.Fail, script.Later, script.Cut, script.Late,
		script.Reject,
	}[rand.IntN(12)]
	if deed != script.Reject {
		return deed
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rejected[through]++; e.rejected[through] > rejectedMost {
		return script.OK
	}
	return deed
}

// collectChunks reads what was planned. Agents have ended.
func (w *world) collectChunks(t testing.TB, h *history.History) {
	t.Helper()
	if w.o.Items == 0 {
		return
	}
	c := &h.Chunks
	c.Ahead, c.Marks = chunksAhead, map[int]int{}
	query(t, w, `SELECT task, pass, after_key, through_key, live FROM chunk_step ORDER BY serial`, func(rows pgx.Rows) error {
		var s history.ChunkStep
		err := rows.Scan(&s.Task, &s.Pass, &s.After, &s.Through, &s.Live)
		c.Steps = append(c.Steps, s)
		return err
	})
	query(t, w, `SELECT p.pass, p.chunks, coalesce(p.from_key, '0')::bigint, coalesce(p.through_key, '0')::bigint, p.rows,
			p.sealed_at IS NOT NULL, coalesce(b.sealed, false)
		FROM leasehold.chunk_pass AS p LEFT JOIN leasehold.batches AS b ON b.id = p.batch_id ORDER BY p.pass`, func(rows pgx.Rows) error {
		var p history.ChunkPass
		err := rows.Scan(&p.Pass, &p.Chunks, &p.From, &p.Upto, &p.Rows, &p.Sealed, &p.BatchSealed)
		c.Passes = append(c.Passes, p)
		return err
	})
	query(t, w, `SELECT id, (payload->>'pass')::int, coalesce(payload->>'after', '0')::bigint, (payload->>'through')::bigint,
			(payload->>'rows')::bigint
		FROM leasehold.tasks WHERE type = '`+kindMark+`' ORDER BY id`, func(rows pgx.Rows) error {
		var one history.ChunkTask
		err := rows.Scan(&one.ID, &one.Pass, &one.After, &one.Through, &one.Rows)
		c.Tasks = append(c.Tasks, one)
		return err
	})
	query(t, w, `SELECT marks, count(*) FROM item GROUP BY marks`, func(rows pgx.Rows) error {
		var times, n int
		err := rows.Scan(&times, &n)
		c.Marks[times] = n
		return err
	})
}
