//go:build linux

package faults

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/test/faults/history"
)

// How often leases are looked at.
const sampleEvery = 100 * time.Millisecond

// sample looks at the leases of running rows until ctx ends. What cannot be had while the server is away is not missed. It
// speaks PostgreSQL's dialect only.
func (w *world) sample(ctx context.Context) {
	if w.o.SQLite {
		return
	}
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.sampleOnce(ctx)
	}
}

func (w *world) sampleOnce(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	asked := history.Now()
	rows, err := w.app.Query(call, `SELECT t.id, t.fence, t.lease_until - now(), coalesce(a.present_until - now(), '0')
		FROM leasehold.task t LEFT JOIN leasehold.agent a USING (session)
		WHERE t.state IN ('running', 'rollback_running') AND t.lease_until IS NOT NULL AND t.claim > 0`)
	if err != nil {
		return
	}
	var some []history.LeaseSample
	var s history.LeaseSample
	_, err = pgx.ForEachRow(rows, []any{&s.ID, &s.Fence, &s.Left, &s.Present}, func() error {
		some = append(some, s)
		return nil
	})
	if err != nil {
		return
	}
	got := history.Now()
	for i := range some {
		some[i].At, some[i].Within = got, got-asked
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples = append(w.samples, some...)
}
