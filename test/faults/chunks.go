//go:build linux

package faults

import (
	"context"
	"encoding/json"
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
	chunksAhead  = 12
	chunkSize    = 10
	insertEvery  = 500 * time.Millisecond // at most
	firstItems   = 300
	rejectedMost = 2 // how often a key is in a range that is rejected: one that fails in three passes is not planned any more
	stuckOf      = 8 // one of so many ends of ranges has attempts hang
	stuckAbove   = 3 // rows: ranges of fewer are done
)

// declareChunks is the plan, in an agent's configuration.
func (w *world) declareChunks(ahead int) string {
	if w.o.Items == 0 {
		return ""
	}
	return fmt.Sprintf(`chunks "items" {
  task   = %q
  size   = %d
  ahead  = %d
  follow = "1s"
  source {
    table = "item"
    key   = "id"
    where = "status = 0"
  }
}
`, kindMark, chunkSize, ahead)
}

// openItems makes the table, before agents start.
func (w *world) openItems(t testing.TB) {
	t.Helper()
	if w.o.Items == 0 {
		return
	}
	tables := chunkTables
	if w.o.SQLite {
		tables = liteChunkTables
	}
	_, err := w.app.Exec(t.Context(), tables)
	require.NoError(t, err)
	first := make([]int64, firstItems)
	for n := range first {
		first[n] = int64(3*n + 1 + n/40*1000)
	}
	require.NoError(t, w.addItems(t.Context(), first, false))
}

// addItems inserts rows. late says that rows with higher keys may have been committed before.
func (w *world) addItems(ctx context.Context, keys []int64, late bool) error {
	list, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	sql := `INSERT INTO item (id, late) SELECT value::text::bigint, $2::boolean FROM jsonb_array_elements($1::jsonb)`
	if w.o.SQLite {
		sql = `INSERT INTO item (id, late) SELECT value, $2 FROM json_each($1)`
	}
	_, err = w.app.Exec(ctx, sql, string(list), late)
	return err
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
		var some, kept []int64
		for range 1 + r.IntN(w.o.Items) {
			next += 1 + r.Int64N(9)
			if r.IntN(5) == 0 {
				kept = append(kept, next)
			} else {
				some = append(some, next)
			}
		}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
		_ = w.addItems(call, some, false) // the server may be away
		if r.IntN(4) == 0 {
			_ = w.addItems(call, late, true)
			late = nil
		}
		cancel()
		late = append(late, kept...)
	}
}

// chunksLeft returns how much the plan has to do.
const chunksLeft = `SELECT (SELECT count(*) FROM item WHERE status = 0)
	+ (SELECT count(*) FROM leasehold.batch WHERE NOT sealed AND name LIKE 'chunks %')`

// mark marks the rows of a range.
func (c *call) mark() {
	after, through := c.envelope.Data.Range()
	ctx, cancel := context.WithTimeout(c.endpoint.ctx, handlerWithin)
	defer cancel()
	const sql = `UPDATE item SET status = 1, marks = marks + 1 WHERE id > $1 AND id <= $2 AND status = 0`
	if _, err := c.app.Exec(ctx, sql, after, through); err != nil {
		c.answer("failed", http.StatusInternalServerError, err.Error())
		return
	}
	c.answer("succeeded", http.StatusOK, c.envelope.Result())
}

// markDeed is what an attempt at a chunk does. Some ranges hang until they are small; all else is by chance. No key is in a range that
// is rejected more than a few times.
func (e *endpoint) markDeed(d script.Payload) script.Deed {
	after, through := d.Range()
	if through%stuckOf == 0 && d.Rows > stuckAbove {
		return script.Hang
	}
	deed := []script.Deed{
		script.OK, script.OK, script.OK, script.OK, script.OK, script.OK, script.Work, script.Fail, script.Later, script.Cut, script.Late,
		script.Reject,
	}[rand.IntN(12)]
	if deed != script.Reject {
		return deed
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before := 0
	for _, r := range e.rejected {
		if r.After < through && after < r.Through {
			before++
		}
	}
	if before >= rejectedMost {
		return script.OK
	}
	e.rejected = append(e.rejected, history.ChunkRange{After: after, Through: through})
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
	const steps = `SELECT task, pass, half, after_key, through_key, live, beside FROM chunk_step ORDER BY serial`
	query(t, w, steps, func(rows pgx.Rows) error {
		var s history.ChunkStep
		err := rows.Scan(&s.Task, &s.Pass, &s.Half, &s.After, &s.Through, &s.Live, &s.Beside)
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
	query(t, w, `SELECT pass, chunks, left_out FROM chunk_sealed ORDER BY pass`, func(rows pgx.Rows) error {
		var s history.ChunkSeal
		err := rows.Scan(&s.Pass, &s.Chunks, &s.LeftOut)
		c.Sealed = append(c.Sealed, s)
		return err
	})
	query(t, w, `SELECT marks, count(*), count(*) FILTER (WHERE late) FROM item GROUP BY marks`, func(rows pgx.Rows) error {
		var times, n, late int
		err := rows.Scan(&times, &n, &late)
		c.Marks[times] = n
		c.Late += late
		return err
	})
}
