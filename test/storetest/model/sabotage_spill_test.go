package model_test

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongSpill spills otherwise.
type wrongSpill struct {
	*storetest.OnModel
	spill func(ctx context.Context, m *storetest.OnModel, region string, types []store.Spill) (int, error)
}

func (w wrongSpill) Spill(ctx context.Context, region string, types []store.Spill) (int, error) {
	return w.spill(ctx, w.OnModel, region, types)
}

func spillSabotages() []sabotage {
	spills := func(f func(ctx context.Context, m *storetest.OnModel, region string, types []store.Spill) (int, error)) wrong {
		return func(m *storetest.OnModel) storetest.Harness { return wrongSpill{m, f} }
	}
	// first changes rows before they spill.
	first := func(f func(r *model.Row)) wrong {
		return spills(func(ctx context.Context, m *storetest.OnModel, region string, types []store.Spill) (int, error) {
			m.Each(f)
			return m.Spill(ctx, region, types)
		})
	}
	settled := func(f func(r *model.Row)) wrong {
		return after(func(m *storetest.OnModel, _ []store.Settlement, _ []store.Answer) { m.Each(f) })
	}
	return []sabotage{
		{"spills what has just become due", spills(func(ctx context.Context, m *storetest.OnModel, region string, types []store.Spill) (int, error) {
			for i := range types {
				types[i].After = time.Minute
			}
			return m.Spill(ctx, region, types)
		}), "spill/what has waited too long, of other regions"},
		{"spills nothing", spills(func(context.Context, *storetest.OnModel, string, []store.Spill) (int, error) { return 0, nil }),
			"spill/what has waited too long, of other regions"},
		{"has its tasks forget their region", spills(func(ctx context.Context, m *storetest.OnModel, region string, types []store.Spill) (int, error) {
			n, err := m.Spill(ctx, region, types)
			m.Each(func(r *model.Row) {
				if r.Spilled {
					r.Region = ""
				}
			})
			return n, err
		}), "spill/what has waited too long, of other regions"},
		{"spills rows of its own region", spills(func(ctx context.Context, m *storetest.OnModel, _ string, types []store.Spill) (int, error) {
			return m.Spill(ctx, "none", types)
		}), "spill/those of its own region claim it as well"},
		{"counts from the last due time", first(func(r *model.Row) { r.FirstDue = time.Time{} }),
			"spill/a retried row has waited since it was first due"},
		{"forgets at a settlement that a row has spilled", settled(func(r *model.Row) { r.Spilled = false }),
			"spill/a retried row has waited since it was first due"},
		{"counts from when the row was inserted", first(func(r *model.Row) { r.FirstDue = r.CreatedAt }),
			"spill/a row that asked to be run later is due anew"},
		{"counts from before the rollback", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			if e.Next.State == task.StateRollbackPending {
				e.Phase = task.Rollback
			}
		}), "spill/a rollback is due anew"},
		{"spills rows that wait for others", first(func(r *model.Row) { r.Held = "" }), "spill/what has not been freed by others stays"},
		{"spills no more than ten at once", spills(func(ctx context.Context, m *storetest.OnModel, region string, types []store.Spill) (int, error) {
			n, err := m.Spill(ctx, region, types)
			return min(n, 10), err
		}), "spill/so many at once, the longest waiting first"},
	}
}
