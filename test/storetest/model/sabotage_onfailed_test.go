package model_test

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// unmourned is a model that does not know which rows complete is to insert.
type unmourned struct{ *storetest.OnModel }

func (u unmourned) Join(ctx context.Context, a store.Agent) (task.Session, error) {
	a.Policies = maps.Clone(a.Policies)
	for hash, p := range a.Policies {
		p.Policy.OnFailed = ""
		a.Policies[hash] = p
	}
	return u.OnModel.Join(ctx, a)
}

func onFailedSabotages() []sabotage {
	ends := func(f func(e *store.Settlement)) wrong {
		return before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) { f(e) })
	}
	leaves := func(f func(r *model.Row)) wrong {
		return after(func(m *storetest.OnModel, _ []store.Settlement, _ []store.Answer) { m.Each(f) })
	}
	inserted := func(r *model.Row) bool { return r.FailedTask != 0 && r.FailedTask != r.ID }
	return []sabotage{
		{"inserts an empty row", leaves(func(r *model.Row) {
			if inserted(r) {
				r.Payload = json.RawMessage(`{}`)
			}
		}), "rows of on_failed/what it has"},
		{"inserts a row that names no task", leaves(func(r *model.Row) {
			if inserted(r) {
				r.Tenant = ""
			}
		}), "rows of on_failed/what it has"},
		{"inserts a row for whatever ends", ends(func(e *store.Settlement) {
			if e.Next.State.Finished() {
				e.Next.OnFailed = "suite.dead"
			}
		}), "rows of on_failed/one for each of a call"},
		{"inserts none for a row that is reaped", ends(func(e *store.Settlement) {
			if e.RanFence != e.Fence {
				e.Next.OnFailed = ""
			}
		}), "rows of on_failed/of a task that is reaped"},
		{"inserts none after a rollback", ends(func(e *store.Settlement) {
			if e.Phase == task.Rollback {
				e.Next.OnFailed = ""
			}
		}), "rows of on_failed/once its rollback has ended"},
		{"inserts one before the rollback", ends(func(e *store.Settlement) {
			if e.Next.State == task.StateRollbackPending && e.Phase == task.Run {
				e.Next.State, e.Next.OnFailed = task.StateFailed, "suite.dead"
			}
		}), "rows of on_failed/once its rollback has ended"},
		{"inserts none where a rollback is completed", func(m *storetest.OnModel) storetest.Harness { return unmourned{m} },
			"rows of on_failed/by who completes the rollback"},
		{"forgets that a row has had its row", before(func(m *storetest.OnModel, _ *task.Session, _ *store.Settlement) {
			m.Each(func(r *model.Row) {
				if r.FailedTask == r.ID {
					r.FailedTask = 0
				}
			})
		}), "rows of on_failed/again after a retry, and not after a rollback"},
		{"inserts one row for ever", before(func(m *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			m.Each(func(r *model.Row) {
				if r.ID == e.ID && r.Round > 0 {
					r.FailedTask = r.ID
				}
			})
		}), "rows of on_failed/again after a retry, and not after a rollback"},
		{"has rows of on_failed cause others", leaves(func(r *model.Row) {
			if inserted(r) {
				r.FailedTask = 0
			}
		}), "rows of on_failed/none for one that was inserted so"},
		{"inserts a row that is due at once", leaves(func(r *model.Row) {
			if inserted(r) {
				r.RunAt = r.CreatedAt
			}
		}), "rows of on_failed/due when nothing is at work"},
		{"inserts no large data", leaves(func(r *model.Row) {
			if inserted(r) && len(r.Payload) > 1000 {
				r.Payload = json.RawMessage(`{"id":0}`)
			}
		}), "rows of on_failed/without data that it cannot have"},
	}
}
