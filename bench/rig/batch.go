package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// BatchWatch looks at the one batch of a database while its tasks are worked on.
type BatchWatch struct {
	most    int
	looks   []int64 // microseconds that a look at the view took
	samples int
	differ  int
}

// NewBatchWatch returns a watch. It takes no more samples than most.
func NewBatchWatch(most int) *BatchWatch { return &BatchWatch{most: most} }

// Wants reports whether there are fewer samples than wanted.
func (w *BatchWatch) Wants() bool { return w.samples < w.most }

const (
	viewSQL = `SELECT * FROM leasehold.batches WHERE id = $1`
	// In one statement, and so in one snapshot: the counters, and the rows by state.
	samplesSQL = `
SELECT (b.total, b.live, b.waiting, b.running, b.rolling_back, b.succeeded, b.failed, b.cancelled, b.rolled_back, b.rollback_failed)
     = (t.total, t.waiting + t.running + t.rolling_back, t.waiting, t.running, t.rolling_back, t.succeeded, t.failed, t.cancelled,
        t.rolled_back, t.rollback_failed)
FROM leasehold.batches AS b, (
    SELECT coalesce(sum(n), 0) AS total,
        coalesce(sum(n) FILTER (WHERE state IN ('pending', 'retry_pending')), 0) AS waiting,
        coalesce(sum(n) FILTER (WHERE state = 'running'), 0) AS running,
        coalesce(sum(n) FILTER (WHERE state IN ('rollback_pending', 'rollback_running')), 0) AS rolling_back,
        coalesce(sum(n) FILTER (WHERE state = 'succeeded'), 0) AS succeeded,
        coalesce(sum(n) FILTER (WHERE state = 'failed'), 0) AS failed,
        coalesce(sum(n) FILTER (WHERE state = 'cancelled'), 0) AS cancelled,
        coalesce(sum(n) FILTER (WHERE state = 'rolled_back'), 0) AS rolled_back,
        coalesce(sum(n) FILTER (WHERE state = 'rollback_failed'), 0) AS rollback_failed
    FROM (SELECT state, count(*) AS n FROM leasehold.tasks WHERE batch_id = $1 GROUP BY state) AS each
) AS t
WHERE b.id = $1`
)

// Begin begins to look at the newest batch until restore is called. Looks have a connection of their own: after each second
// of counting rows the server's process would have to wait for its turn.
func (w *BatchWatch) Begin(ctx context.Context, d *Database) (restore func() error, err error) {
	cfg, err := pgx.ParseConfig(d.url)
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["application_name"] = holder
	view, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	counter, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, view.Close(ctx))
	}
	var id int64
	if err := view.QueryRow(ctx, `SELECT max(id) FROM leasehold.batch`).Scan(&id); err != nil {
		return nil, errors.Join(err, view.Close(ctx), counter.Close(ctx))
	}
	watching, end := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() { over <- w.watch(watching, view, counter, id) }() // ends with restore
	return func() error {
		end()
		ctx := context.WithoutCancel(ctx)
		return errors.Join(<-over, view.Close(ctx), counter.Close(ctx))
	}, nil
}

// watch samples until ctx ends, or there are enough.
func (w *BatchWatch) watch(ctx context.Context, view, counter *pgx.Conn, id int64) error {
	for w.Wants() && ctx.Err() == nil {
		began := time.Now()
		if _, err := view.Exec(ctx, viewSQL, id); err != nil {
			return unlessOver(ctx, fmt.Errorf("look at the batch: %w", err))
		}
		w.looks = append(w.looks, time.Since(began).Microseconds())
		var same bool
		if err := counter.QueryRow(ctx, samplesSQL, id).Scan(&same); err != nil {
			return unlessOver(ctx, fmt.Errorf("compare counters and rows: %w", err))
		}
		w.samples++
		if !same {
			w.differ++
		}
	}
	return nil
}

func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was asked to end
	}
	return err
}

// Measures are what was seen.
func (w *BatchWatch) Measures() Measures {
	slices.Sort(w.looks)
	return Measures{
		"samples": float64(w.samples), "samples_that_differ": float64(w.differ),
		"view_p50_ms": percentile(w.looks, 50) / 1000, "view_p99_ms": percentile(w.looks, 99) / 1000,
	}
}
