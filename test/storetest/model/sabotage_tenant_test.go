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
	return []sabotage{
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
