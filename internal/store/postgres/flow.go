package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// Flow reads what limits, rates and locks let start, and who waits for them.
func (s *Store) Flow(ctx context.Context) (flow store.Flow, err error) {
	err = s.do(ctx, "look at limits and locks", func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			flow, err = s.flow(ctx, tx.Conn())
			return err
		})
	})
	return flow, err
}

// flow reads it in the transaction that is open on conn.
func (s *Store) flow(ctx context.Context, conn *pgx.Conn) (f store.Flow, err error) {
	if err := conn.QueryRow(ctx, "SELECT now()").Scan(&f.Now); err != nil {
		return f, err
	}
	f.Now = f.Now.UTC()
	if err := s.flowLimits(ctx, conn, &f); err != nil {
		return f, err
	}
	for _, where := range tenantClasses() {
		if err := s.flowTenants(ctx, conn, where, &f); err != nil {
			return f, err
		}
	}
	if err := s.flowTenantUse(ctx, conn, &f); err != nil {
		return f, err
	}
	err = s.flowLocks(ctx, conn, &f)
	return f, err
}

// tenantClasses are the conditions of the indexes of rows with tenants.
func tenantClasses() []string {
	return []string{
		"t.state IN ('pending', 'retry_pending') AND t.held IS NULL AND t.tenant IS NOT NULL",
		"t.state = 'rollback_pending' AND t.held IS NULL AND t.tenant IS NOT NULL",
	}
}

func (s *Store) flowLimits(ctx context.Context, on querier, f *store.Flow) error {
	var l store.FlowLimit
	var b store.Bucket
	var back int
	return forEach(ctx, on, []any{
		&l.Name, &l.Types, &l.Limit, &l.Rate, &l.Burst, &l.Tenant.Most, &l.Tenant.Rate, &l.Tenant.Burst, &l.Running, &b.Tokens, &b.At, &back,
	}, func() error {
		if len(f.Limits) == store.FlowLimits {
			f.MoreLimits = true
			return nil
		}
		one := l
		one.Types = append([]string(nil), l.Types...)
		one.Count(b, back, f.Now)
		f.Limits = append(f.Limits, one)
		return nil
	}, s.sql.FlowLimits, arg("most", int64(store.FlowLimits+1)), arg("counted", int64(store.CountedRows)))
}

func (s *Store) flowTenants(ctx context.Context, on querier, where string, f *store.Flow) error {
	q, err := s.sql.FlowTenants.Fill("{where}", where)
	if err != nil {
		return err
	}
	var typ, tenant string
	var waiting int64
	n, most := 0, int64(store.CountedOf(store.FlowTenants))
	err = forEach(ctx, on, []any{&typ, &tenant, &waiting}, func() error {
		n++
		f.AddTenant(typ, tenant, min(waiting, most), waiting > most)
		return nil
	}, q, arg("most", store.FlowTenants), arg("counted", most+1))
	f.MoreTenants = f.MoreTenants || n >= store.FlowTenants
	return err
}

func (s *Store) flowTenantUse(ctx context.Context, on querier, f *store.Flow) error {
	bounded := f.Bounds()
	names, tenants := make([]string, len(bounded)), make([]string, len(bounded))
	for i, t := range bounded {
		names[i], tenants[i] = t.Of, t.Tenant
	}
	var running, n int
	var tokens *float64
	var at *time.Time
	return forEach(ctx, on, []any{&running, &tokens, &at}, func() error {
		t := bounded[n]
		n++
		t.Running = running
		b := store.FullBucket(t.Burst, f.Now)
		if tokens != nil && at != nil {
			b = store.Bucket{Tokens: *tokens, At: *at}
		}
		t.Count(b, 0, f.Now)
		return nil
	}, s.sql.FlowTenantUse, arg("names", names), arg("tenants", tenants), arg("counted", int64(store.CountedOf(store.FlowTenants))))
}

func (s *Store) flowLocks(ctx context.Context, on querier, f *store.Flow) error {
	var l store.FlowLock
	most := int64(store.CountedOf(store.FlowLocks))
	err := forEach(ctx, on, []any{
		&l.Lock, (*int64)(&l.Task), &l.Type, (*string)(&l.State), &l.Since, &l.Until, &l.Waiting, (*int64)(&l.Next),
	}, func() error {
		one := l
		one.Since, one.Until = utcPointer(l.Since), utcPointer(l.Until)
		one.Waiting, one.Capped = min(l.Waiting, most), l.Waiting > most
		f.Locks = append(f.Locks, one)
		return nil
	}, s.sql.FlowLocks, arg("most", store.FlowLocks), arg("counted", most+1))
	f.MoreLocks = len(f.Locks) >= store.FlowLocks
	return err
}
