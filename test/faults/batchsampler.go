//go:build linux

package faults

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/test/faults/history"
)

// How often batches are looked at, and how many of the last ones.
const (
	lookEvery = 150 * time.Millisecond
	lookAt    = 20
)

// A batch as its view has it, and as its rows add up to, in one snapshot; and those of its rows that have not ended.
const lookSQL = `
WITH b AS MATERIALIZED (SELECT * FROM leasehold.batches ORDER BY id DESC LIMIT $1)
SELECT b.id, b.state, b.round, b.stopping,
    b.total, b.live, b.waiting, b.running, b.rolling_back, b.succeeded, b.failed, b.cancelled, b.rolled_back, b.rollback_failed,
    r.total, r.waiting + r.running + r.rolling_back, r.waiting, r.running, r.rolling_back, r.succeeded, r.failed, r.cancelled, r.rolled_back,
    r.rollback_failed, coalesce(r.ids, '{}'), coalesce(r.fences, '{}')
FROM b CROSS JOIN LATERAL (
    SELECT count(*) AS total,
        count(*) FILTER (WHERE state IN ('pending', 'retry_pending')) AS waiting,
        count(*) FILTER (WHERE state = 'running') AS running,
        count(*) FILTER (WHERE state IN ('rollback_pending', 'rollback_running')) AS rolling_back,
        count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
        count(*) FILTER (WHERE state = 'failed') AS failed,
        count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE state = 'rolled_back') AS rolled_back,
        count(*) FILTER (WHERE state = 'rollback_failed') AS rollback_failed,
        array_agg(t.id) FILTER (WHERE state IN ('pending', 'retry_pending', 'running')) AS ids,
        array_agg(t.fence) FILTER (WHERE state IN ('pending', 'retry_pending', 'running')) AS fences
    FROM leasehold.tasks AS t WHERE t.batch_id = b.id) AS r`

// look looks at batches until ctx ends. What cannot be had while the server is away is not missed. It speaks PostgreSQL's
// dialect only.
func (w *world) look(ctx context.Context) {
	if w.o.Batches == 0 || w.o.SQLite {
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.sampleBatches(ctx)
	}
}

// sampleBatches looks at the last batches once.
func (w *world) sampleBatches(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	asked := history.Now()
	rows, err := w.app.Query(call, lookSQL, lookAt)
	if err != nil {
		return
	}
	var some []history.BatchSample
	var s history.BatchSample
	var ids, fences []int64
	v, r := &s.View, &s.Rows
	_, err = pgx.ForEachRow(rows, []any{
		&s.ID, &s.State, &s.Round, &s.Stopping,
		&v.Total, &v.Live, &v.Waiting, &v.Running, &v.RollingBack, &v.Succeeded, &v.Failed, &v.Cancelled, &v.RolledBack, &v.RollbackFailed,
		&r.Total, &r.Live, &r.Waiting, &r.Running, &r.RollingBack, &r.Succeeded, &r.Failed, &r.Cancelled, &r.RolledBack, &r.RollbackFailed,
		&ids, &fences,
	}, func() error {
		one := s
		one.Fences = make(map[int64]int64, len(ids))
		for i, id := range ids {
			one.Fences[id] = fences[i]
		}
		some = append(some, one)
		return nil
	})
	if err != nil {
		return
	}
	w.keepSamples(some, history.Now(), asked)
}

// keepSamples keeps the samples that differ from those before.
func (w *world) keepSamples(some []history.BatchSample, got, asked time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range some {
		s.At, s.Within = got, got-asked
		before, known := w.looked[s.ID]
		first := s.Stopping && (!known || !before.Stopping || before.Round != s.Round)
		if !first {
			s.Fences = nil
		}
		if known && !first && before.View == s.View && before.Rows == s.Rows && before.State == s.State && before.Round == s.Round {
			continue
		}
		w.looked[s.ID] = s
		w.batchSamples = append(w.batchSamples, s)
	}
}
