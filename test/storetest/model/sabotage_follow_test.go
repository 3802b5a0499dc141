package model_test

import (
	"context"
	"maps"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// changing enqueues another request.
func changing(f func(m *storetest.OnModel, r *store.EnqueueRequest)) wrong {
	return enqueueing(func(ctx context.Context, m *storetest.OnModel, r store.EnqueueRequest) (task.ID, store.Enqueued, error) {
		f(m, &r)
		return m.Enqueue(ctx, r)
	})
}

// followSabotages are about what becomes of a row whose key is taken.
func followSabotages() []sabotage {
	return []sabotage{
		{"keeps for replace", changing(func(_ *storetest.OnModel, r *store.EnqueueRequest) {
			if r.Key != "" {
				r.OnLive, r.In, r.Debounce, r.DebounceMax = store.OnLiveKeep, r.In+r.Debounce, 0, 0
			}
		}), "on_live/replace gives every value to a row that has never started"},
		{"replaces what has started", changing(func(m *storetest.OnModel, r *store.EnqueueRequest) {
			m.Each(func(live *model.Row) {
				if r.Live() == store.OnLiveReplace && live.Type == r.Type && live.Key == r.Key && live.EverStarted && r.Payload != nil {
					live.Payload = r.Payload
				}
			})
		}), "on_live/a row that may have started is followed"},
		{"lets the first follower win", enqueueing(func(
			ctx context.Context, m *storetest.OnModel, r store.EnqueueRequest,
		) (id task.ID, answer store.Enqueued, err error) {
			m.TamperFollowers(func(follow map[[2]string]*model.Row, _ map[task.ID]*model.Row) {
				if f := follow[[2]string{r.Type, r.Key}]; f != nil && r.Live() != store.OnLiveKeep {
					id, answer = f.ID, store.EnqueuedFollows
				}
			})
			if id != 0 {
				return id, answer, nil
			}
			return m.Enqueue(ctx, r)
		}), "on_live/again follows, and the latest wins"},
		{"replaces the live row beside its follower", changing(func(m *storetest.OnModel, r *store.EnqueueRequest) {
			if r.Live() != store.OnLiveReplace {
				return
			}
			m.TamperFollowers(func(follow map[[2]string]*model.Row, live map[task.ID]*model.Row) {
				for _, l := range live {
					if f := follow[[2]string{l.Type, l.Key}]; f != nil && l.Type == r.Type && l.Key == r.Key && r.Payload != nil {
						l.Payload = r.Payload
					}
				}
			})
		}), "on_live/replace of a row that has a follower replaces that"},
		{"debounces without a bound", changing(func(_ *storetest.OnModel, r *store.EnqueueRequest) { r.DebounceMax = 0 }),
			"on_live/no later than its bound"},
		{"keeps the deadline of the former due time", enqueueing(func(
			ctx context.Context, m *storetest.OnModel, r store.EnqueueRequest,
		) (task.ID, store.Enqueued, error) {
			was := map[task.ID]model.Row{}
			m.Each(func(l *model.Row) { was[l.ID] = *l })
			id, answer, err := m.Enqueue(ctx, r)
			m.Each(func(l *model.Row) {
				if l.ID == id && answer == store.EnqueuedReplaced {
					l.Deadline = was[id].Deadline
				}
			})
			return id, answer, err
		}), "on_live/replace of a row that was released before its start"},
		{"loses followers", before(func(m *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			m.TamperFollowers(func(follow map[[2]string]*model.Row, live map[task.ID]*model.Row) {
				if l := live[e.ID]; l != nil && e.Next.State.Finished() {
					delete(follow, [2]string{l.Type, l.Key})
				}
			})
		}), "follow/a follower becomes a task however the live row ends"},
		{"starts followers when the row waits again", after(func(m *storetest.OnModel, rows []store.Settlement, _ []store.Answer) {
			m.TamperFollowers(func(follow map[[2]string]*model.Row, live map[task.ID]*model.Row) {
				for _, e := range rows {
					l := live[e.ID]
					if l == nil {
						continue
					}
					if f := follow[[2]string{l.Type, l.Key}]; f != nil {
						delete(follow, [2]string{l.Type, l.Key})
						live[f.ID] = f
					}
				}
			})
		}), "follow/not before it has ended for good"},
		{"starts followers before the lease is over", after(func(m *storetest.OnModel, rows []store.Settlement, _ []store.Answer) {
			m.Each(func(l *model.Row) {
				if l.Fence == 1 && l.Session == 0 && rows[0].Next.AfterLease {
					l.RunAt = l.CreatedAt
				}
			})
		}), "follow/nor while something of it may be at work"},
		{"starts a follower twice", after(func(m *storetest.OnModel, _ []store.Settlement, _ []store.Answer) {
			m.TamperFollowers(func(follow map[[2]string]*model.Row, live map[task.ID]*model.Row) {
				for _, l := range maps.Clone(live) {
					if l.Fence == 1 && l.Session == 0 {
						twice := *l
						twice.ID, twice.Fence = l.ID+1000, 2
						live[twice.ID] = &twice
					}
				}
			})
		}), "follow/a settlement that is repeated inserts one"},
	}
}
