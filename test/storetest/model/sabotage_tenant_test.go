package model_test

import (
	"context"
	"slices"
	"strconv"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongLimits is a model that takes other limits than are declared.
type wrongLimits struct {
	*storetest.OnModel
	change func(l *store.TypeLimit)
}

func (w wrongLimits) Present(ctx context.Context, p store.Heartbeat) (store.HeartbeatReply, error) {
	p.Agent.Limits = slices.Clone(p.Agent.Limits)
	for i := range p.Agent.Limits {
		w.change(&p.Agent.Limits[i])
	}
	return w.OnModel.Present(ctx, p)
}

func tenantSabotages() []sabotage {
	wants := func(f func(w *store.Want)) wrong {
		return claimed(func(ctx context.Context, m *storetest.OnModel, c store.Claim) ([]task.Task, error) {
			c.Wants = slices.Clone(c.Wants)
			for i := range c.Wants {
				f(&c.Wants[i])
			}
			return m.Claim(ctx, c)
		})
	}
	restore := func(was model.Row, r *model.Row) { r.Tenant, r.Priority = was.Tenant, was.Priority }
	declares := func(f func(l *store.TypeLimit)) wrong {
		return func(m *storetest.OnModel) storetest.Harness { return wrongLimits{m, f} }
	}
	limits := "limits of tenants/"
	return []sabotage{
		{"bounds no tenant", declares(func(l *store.TypeLimit) { l.Tenant = store.TenantLimit{} }), limits + "never more of a tenant than its limit, over all agents"},
		{"bounds all tenants together", declares(func(l *store.TypeLimit) { l.Most, l.Tenant.Most = l.Tenant.Most, 0 }),
			limits + "never more of a tenant than its limit, over all agents"},
		{"bounds tenants of each row type apart", declares(func(l *store.TypeLimit) { l.Types = []string{l.Name} }), limits + "runs, rollbacks and aliases share it"},
		{"knows no limit beside that of tenants", declares(func(l *store.TypeLimit) { l.Most = 0 }), limits + "beside the type's own limit and rate"},
		{"knows no rate of tenants", declares(func(l *store.TypeLimit) { l.Tenant.Rate = 0 }), limits + "no more start than the burst and what the rate brings"},
		{"gives no token back", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) { e.Started = max(e.Started, 0) }), limits + "what never started gives its token back"},
		{"frees the place of what may be at work", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) { e.Next.AfterLease = false }),
			limits + "what may still be at work keeps its place"},
		{"knows no tenants", blurred(func(r *model.Row) { r.Tenant = "" }, restore), "tenants/they take turns"},
		{"passes rows without a tenant by", blurred(func(r *model.Row) {
			if r.Tenant == "" {
				r.Tenant = "row " + strconv.FormatInt(int64(r.ID), 10)
			}
		}, restore), "tenants/rows without a tenant are one among them"},
		{"knows no weights", wants(func(w *store.Want) { w.Weights = nil }), "tenants/turns by weight"},
		{"begins with the same tenants each time", claimed(func(ctx context.Context, m *storetest.OnModel, c store.Claim) ([]task.Task, error) {
			m.ForgetTenantTurns()
			return m.Claim(ctx, c)
		}), "tenants/the turns go on from claim to claim"},
		{"forgets the order within a tenant", blurred(func(r *model.Row) { r.Priority = 0 }, restore), "tenants/within a tenant priority, due time, id"},
	}
}
