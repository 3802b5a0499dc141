// Package raw is the least that has to be done: one connection that claims a thousand rows at a time, workers, one
// connection that settles what is done. No leases are renewed, nothing sweeps, retries, limits, drains or counts. It is
// the ceiling for anything that does the same work on these tables.
package raw

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/bench/work"
)

//go:embed schema.sql
var schemaSQL string

const (
	claimRows = 1000
	ahead     = 2 // claims that wait for workers

	claimSQL = `
WITH picked AS MATERIALIZED (
    SELECT r.id FROM generate_series(10, -10, -1) AS p (priority) CROSS JOIN LATERAL (
        SELECT t.id FROM task AS t
        WHERE t.state = 'pending' AND t.type = $1 AND coalesce(t.region, '') = '' AND t.priority = p.priority
          AND t.run_at <= now() AND (t.run_at, t.id) > ($2, $3)
        ORDER BY t.run_at, t.id LIMIT $4 FOR UPDATE SKIP LOCKED
    ) AS r LIMIT $4
)
UPDATE task SET state = 'running', session = 1, claim = $5, fence = fence + 1, attempt = attempt + 1,
    claimed_at = now(), lease_until = now() + interval '30 s'
WHERE id = ANY (ARRAY(SELECT id FROM picked)) RETURNING id, fence, run_at, payload`

	settleSQL = `
WITH gone AS (
    DELETE FROM task AS t USING unnest($1::bigint[], $2::bigint[]) AS i (id, fence)
    WHERE t.id = i.id AND t.fence = i.fence AND t.session = 1 RETURNING t.*
)
INSERT INTO archive (id, run_at, created_at, fence, session, claim, claimed_at, attempt, priority, state, type, region, key, payload,
    finished_at, started_at)
SELECT id, run_at, created_at, fence + 1, session, claim, claimed_at, attempt, priority, 'succeeded', type, region, key, payload, now(), claimed_at
FROM gone`
)

func workers(j work.Job) int {
	switch {
	case j.Workers > 0:
		return j.Workers
	case j.Kind == work.Noop:
		return 4
	case j.Kind == work.Exec:
		return 128
	default:
		return 256
	}
}

// Contender is the raw loop.
type Contender struct{}

// Setup makes the tables and inserts.
func (Contender) Setup(ctx context.Context, j work.Job) error {
	conn, err := pgx.Connect(ctx, j.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the process ends
	if _, err := conn.Exec(ctx, schemaSQL); err != nil {
		return err
	}
	if j.Kind == work.Latency {
		if _, err := conn.Exec(ctx, `CREATE TRIGGER inserted AFTER INSERT ON task FOR EACH STATEMENT EXECUTE FUNCTION inserted()`); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, `INSERT INTO task (type, payload) SELECT $1, $2::jsonb FROM generate_series(1, $3::integer)`,
		work.TaskType, work.Payload, j.Rows); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `VACUUM ANALYZE task`)
	return err
}

type row struct {
	id, fence int64
	runAt     time.Time
	payload   []byte
}

type engine struct {
	job                   work.Job
	doer                  *work.Doer
	claims, settles, look *pgx.Conn
	stop                  context.CancelFunc
	all                   sync.WaitGroup
	rows                  chan []row
	done                  chan row
	mu                    sync.Mutex
	err                   error
}

// Open connects.
func (Contender) Open(ctx context.Context, j work.Job) (work.Engine, error) {
	e := &engine{job: j, doer: work.NewDoer(j, workers(j)), rows: make(chan []row, ahead), done: make(chan row, 4*claimRows)}
	for _, c := range []**pgx.Conn{&e.claims, &e.settles, &e.look} {
		cfg, err := pgx.ParseConfig(j.URL) // there is no pooler in between: it would refuse what follows
		if err != nil {
			return nil, err
		}
		cfg.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
		cfg.RuntimeParams["enable_seqscan"] = "off"
		cfg.RuntimeParams["enable_bitmapscan"] = "off"
		if *c, err = pgx.ConnectConfig(ctx, cfg); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (e *engine) Doer() *work.Doer { return e.doer }
func (e *engine) Version() string  { return "" }

func (e *engine) Start(ctx context.Context) error {
	ctx, e.stop = context.WithCancel(ctx)
	var working sync.WaitGroup
	e.all.Go(func() { e.note(e.claim(ctx)) })
	each := make(chan row, claimRows)
	e.all.Go(func() {
		defer close(each)
		for rows := range e.rows {
			for _, r := range rows {
				each <- r
			}
		}
	})
	for range workers(e.job) {
		working.Go(func() {
			for r := range each {
				e.note(e.doer.Do(ctx, r.id, r.payload))
				e.done <- r
			}
		})
	}
	e.all.Go(func() { working.Wait(); close(e.done) })
	e.all.Go(func() { e.note(e.settle(context.WithoutCancel(ctx))) })
	return nil
}

// note keeps the first error; the run fails with it.
func (e *engine) note(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil && err != nil && !errors.Is(err, context.Canceled) {
		e.err = err
	}
}

// claim claims until ctx ends. With Latency it waits for notifications.
func (e *engine) claim(ctx context.Context) error {
	defer close(e.rows)
	if e.job.Kind == work.Latency {
		if _, err := e.claims.Exec(ctx, `LISTEN task`); err != nil {
			return err
		}
	}
	var last row
	for number := int64(1); ctx.Err() == nil; number++ {
		rows, err := e.claimSome(ctx, number, last)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		if len(rows) > 0 {
			last = slices.MaxFunc(rows, func(a, b row) int { return cmp.Or(a.runAt.Compare(b.runAt), cmp.Compare(a.id, b.id)) })
			e.rows <- rows
			continue
		}
		if e.job.Kind != work.Latency {
			return nil
		}
		if _, err := e.claims.WaitForNotification(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) claimSome(ctx context.Context, number int64, last row) ([]row, error) {
	found, err := e.claims.Query(ctx, claimSQL, work.TaskType, last.runAt, last.id, claimRows, number)
	if err != nil {
		return nil, err
	}
	rows := make([]row, 0, claimRows)
	var r row
	_, err = pgx.ForEachRow(found, []any{&r.id, &r.fence, &r.runAt, &r.payload}, func() error {
		rows = append(rows, r)
		r.payload = nil
		return nil
	})
	return rows, err
}

// settle settles what is done, as much as there is at a time, until all workers have ended.
func (e *engine) settle(ctx context.Context) error {
	ids, fences := make([]int64, 0, claimRows), make([]int64, 0, claimRows)
	for r := range e.done {
		ids, fences = append(ids[:0], r.id), append(fences[:0], r.fence)
	more:
		for len(ids) < claimRows {
			select {
			case r, ok := <-e.done:
				if !ok {
					break more
				}
				ids, fences = append(ids, r.id), append(fences, r.fence)
			default:
				break more
			}
		}
		if _, err := e.settles.Exec(ctx, settleSQL, ids, fences); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
	}
	return nil
}

func (e *engine) Left(ctx context.Context) (left bool, err error) {
	e.mu.Lock()
	err = e.err
	e.mu.Unlock()
	if err != nil {
		return false, err
	}
	err = e.look.QueryRow(ctx, `SELECT EXISTS (SELECT FROM task)`).Scan(&left)
	return left, err
}

func (e *engine) Stop(ctx context.Context) error {
	e.stop()
	e.all.Wait()
	return errors.Join(e.err, e.look.Close(ctx), e.settles.Close(ctx), e.claims.Close(ctx))
}
