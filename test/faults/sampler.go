//go:build linux

package faults

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/test/faults/history"
)

// leaseInterval is the time between two samples of the leases.
const leaseInterval = 100 * time.Millisecond

// sampleLeases records the leases of running rows until ctx ends. A sample that fails because the server is away is left
// out. The query is for PostgreSQL only.
func (w *world) sampleLeases(ctx context.Context) {
	if w.o.SQLite {
		return
	}
	tick := time.NewTicker(leaseInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.sampleLeasesOnce(ctx)
		w.sampleLimitsOnce(ctx)
		w.sampleTenantsOnce(ctx)
	}
}

// limitSQL counts what runs of a type, in any session, and reports whether more of it is due.
const limitSQL = `
SELECT count(*) FILTER (WHERE state IN ('running', 'rollback_running')),
    count(*) FILTER (WHERE state IN ('pending', 'retry_pending') AND run_at <= now()) > 0
FROM leasehold.tasks WHERE type = $1 AND finished_at IS NULL`

// sampleLimitsOnce records how much runs of the type with a limit, while there is any.
func (w *world) sampleLimitsOnce(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	s := history.LimitSample{Kind: kindCapped}
	if err := w.app.QueryRow(call, limitSQL, s.Kind).Scan(&s.Running, &s.Waiting); err != nil || s.Running == 0 {
		return
	}
	s.At = history.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limitSamples = append(w.limitSamples, s)
}

// sampleTenantsOnce records how much runs of each tenant of the type that bounds these.
func (w *world) sampleTenantsOnce(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := w.app.Query(call, `SELECT tenant, count(*) FROM leasehold.tasks
		WHERE type = $1 AND state IN ('running', 'rollback_running') AND tenant IS NOT NULL GROUP BY tenant`, kindShared)
	if err != nil {
		return
	}
	var samples []history.TenantSample
	s := history.TenantSample{Kind: kindShared}
	_, err = pgx.ForEachRow(rows, []any{&s.Tenant, &s.Running}, func() error {
		s.At = history.Now()
		samples = append(samples, s)
		return nil
	})
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tenantSamples = append(w.tenantSamples, samples...)
}

func (w *world) sampleLeasesOnce(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	start := history.Now()
	rows, err := w.app.Query(call, `SELECT t.id, t.fence, t.lease_until - now(), coalesce(a.present_until - now(), '0')
		FROM leasehold.task t LEFT JOIN leasehold.agent a USING (session)
		WHERE t.state IN ('running', 'rollback_running') AND t.lease_until IS NOT NULL AND t.claim > 0`)
	if err != nil {
		return
	}
	var samples []history.LeaseSample
	var scanned history.LeaseSample
	_, err = pgx.ForEachRow(rows, []any{&scanned.ID, &scanned.Fence, &scanned.Left, &scanned.Present}, func() error {
		samples = append(samples, scanned)
		return nil
	})
	if err != nil {
		return
	}
	end := history.Now()
	for i := range samples {
		samples[i].At, samples[i].Within = end, end-start
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaseSamples = append(w.leaseSamples, samples...)
}
