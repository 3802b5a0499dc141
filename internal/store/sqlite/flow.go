package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Flow reads what limits, rates and locks let start, and who waits for them. It does not wait for writers.
func (s *Store) Flow(ctx context.Context) (flow store.Flow, err error) {
	err = s.view(ctx, "look at limits and locks", func(t *snapshot) error {
		flow = store.Flow{Now: s.now()}
		if err := t.flowLimits(&flow); err != nil {
			return err
		}
		indexes := flowTenantIndexes()
		for _, index := range slices.Sorted(maps.Keys(indexes)) {
			if err := t.flowTenants(index, indexes[index], &flow); err != nil {
				return err
			}
		}
		for _, tenant := range flow.Bounds() {
			if err := t.flowTenantUse(tenant, flow.Now); err != nil {
				return err
			}
		}
		return t.flowLocks(&flow)
	})
	return flow, err
}

// flowTenantIndexes are the indexes of waiting rows that have a tenant, with their conditions.
func flowTenantIndexes() map[string]string {
	return map[string]string{
		"task_tenant":          "task.state IN ('pending', 'retry_pending') AND task.held IS NULL AND task.tenant IS NOT NULL",
		"task_tenant_rollback": "task.state = 'rollback_pending' AND task.held IS NULL AND task.tenant IS NOT NULL",
	}
}

func (t *snapshot) flowLimits(f *store.Flow) error {
	return t.query(func(r *sql.Rows) error {
		var l store.FlowLimit
		var b store.Bucket
		var types string
		if err := r.Scan(&l.Name, &types, &l.Limit, &l.Rate, &l.Burst, &l.Tenant.Most, &l.Tenant.Rate, &l.Tenant.Burst, &l.Running, &b.Tokens,
			timeOf{&b.At}); err != nil {
			return err
		}
		if len(f.Limits) == store.FlowLimits {
			f.MoreLimits = true
			return nil
		}
		if err := json.Unmarshal([]byte(types), &l.Types); err != nil {
			return fmt.Errorf("the types of limit %s: %w", l.Name, err)
		}
		l.Count(b, 0, f.Now)
		f.Limits = append(f.Limits, l)
		return nil
	}, t.sql.FlowLimits, arg("most", store.FlowLimits+1), arg("counted", store.CountedRows), arg("now", stamp(f.Now)))
}

func (t *snapshot) flowTenants(index, where string, f *store.Flow) error {
	q, err := t.sql.FlowTenants.FillAll("{index}", "INDEXED BY "+index, "{where}", where)
	if err != nil {
		return err
	}
	n, most := 0, int64(store.CountedOf(store.FlowTenants))
	err = t.query(func(r *sql.Rows) error {
		var typ, tenant string
		var waiting int64
		err := r.Scan(&typ, &tenant, &waiting)
		f.AddTenant(typ, tenant, min(waiting, most), waiting > most)
		n++
		return err
	}, q, arg("most", store.FlowTenants), arg("counted", most+1))
	f.MoreTenants = f.MoreTenants || n >= store.FlowTenants
	return err
}

func (t *snapshot) flowTenantUse(of *store.FlowTenant, now time.Time) error {
	b := store.FullBucket(of.Burst, now)
	var tokens *float64
	var at time.Time
	if err := t.row([]any{&of.Running, &tokens, timeOf{&at}}, t.sql.FlowTenantUse, arg("name", of.Of), arg("tenant", of.Tenant),
		arg("counted", store.CountedOf(store.FlowTenants)), arg("now", stamp(now))); err != nil {
		return err
	}
	if tokens != nil {
		b = store.Bucket{Tokens: *tokens, At: at}
	}
	of.Count(b, 0, now)
	return nil
}

func (t *snapshot) flowLocks(f *store.Flow) error {
	most := int64(store.CountedOf(store.FlowLocks))
	err := t.query(func(r *sql.Rows) error {
		var l store.FlowLock
		var since, until time.Time
		if err := r.Scan(&l.Lock, &l.Task, &l.Type, textOf[task.State]{&l.State}, timeOf{&since}, timeOf{&until}, &l.Waiting, &l.Next); err != nil {
			return err
		}
		l.Since, l.Until = pointer(since), pointer(until)
		l.Waiting, l.Capped = min(l.Waiting, most), l.Waiting > most
		f.Locks = append(f.Locks, l)
		return nil
	}, t.sql.FlowLocks, arg("most", store.FlowLocks), arg("counted", most+1), arg("now", stamp(f.Now)))
	f.MoreLocks = len(f.Locks) >= store.FlowLocks
	return err
}
