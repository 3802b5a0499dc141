//go:build linux

package faults

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/test/faults/history"
)

// batchInterval is the time between two samples of the batches, newestBatches how many of the newest a sample covers.
const (
	batchInterval = 150 * time.Millisecond
	newestBatches = 20
)

// batchSQL reads, in one snapshot, each batch as the view has it, the same counters from its rows, and the ids and fences of
// the rows that are not finished.
const batchSQL = `
WITH b AS MATERIALIZED (SELECT * FROM leasehold.batches ORDER BY id DESC LIMIT $1)
SELECT b.id, b.state, b.round, b.stopping,
    b.total, b.live, b.waiting, b.running, b.rolling_back, b.succeeded, b.failed, b.cancelled, b.rolled_back, b.rollback_failed,
    r.total, r.waiting + r.running + r.rolling_back, r.waiting, r.running, r.rolling_back, r.succeeded, r.failed, r.cancelled, r.rolled_back,
    r.rollback_failed, coalesce(r.ids, '{}'), coalesce(r.fences, '{}')
FROM b CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE state <> 'split') AS total, -- its halves count in its place
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

// sampleBatches records batches until ctx ends. A sample that fails because the server is away is left out. The query is for
// PostgreSQL only.
func (w *world) sampleBatches(ctx context.Context) {
	if w.o.Batches == 0 || w.o.SQLite {
		return
	}
	tick := time.NewTicker(batchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.sampleBatchesOnce(ctx)
	}
}

func (w *world) sampleBatchesOnce(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	start := history.Now()
	rows, err := w.app.Query(call, batchSQL, newestBatches)
	if err != nil {
		return
	}
	var samples []history.BatchSample
	var scanned history.BatchSample
	var ids, fences []int64
	view, counted := &scanned.View, &scanned.Rows
	_, err = pgx.ForEachRow(rows, []any{
		&scanned.ID, &scanned.State, &scanned.Round, &scanned.Stopping,
		&view.Total, &view.Live, &view.Waiting, &view.Running, &view.RollingBack, &view.Succeeded, &view.Failed, &view.Cancelled,
		&view.RolledBack, &view.RollbackFailed,
		&counted.Total, &counted.Live, &counted.Waiting, &counted.Running, &counted.RollingBack, &counted.Succeeded, &counted.Failed,
		&counted.Cancelled, &counted.RolledBack, &counted.RollbackFailed,
		&ids, &fences,
	}, func() error {
		sample := scanned
		sample.Fences = make(map[int64]int64, len(ids))
		for i, id := range ids {
			sample.Fences[id] = fences[i]
		}
		samples = append(samples, sample)
		return nil
	})
	if err != nil {
		return
	}
	w.keepBatchSamples(samples, start, history.Now())
}

// keepBatchSamples keeps each sample that differs from the batch's last one. Fences are kept only in the first sample of a
// round in which the batch is stopping.
func (w *world) keepBatchSamples(samples []history.BatchSample, start, end time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range samples {
		s.At, s.Within = end, end-start
		last, known := w.lastBatchSample[s.ID]
		firstStopping := s.Stopping && (!known || !last.Stopping || last.Round != s.Round)
		if !firstStopping {
			s.Fences = nil
		}
		if known && !firstStopping && last.View == s.View && last.Rows == s.Rows && last.State == s.State && last.Round == s.Round {
			continue
		}
		w.lastBatchSample[s.ID] = s
		w.batchSamples = append(w.batchSamples, s)
	}
}
