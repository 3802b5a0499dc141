package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongEnqueue is a model whose Enqueue is another function.
type wrongEnqueue struct {
	*storetest.OnModel
	enqueue enqueueFunc
}

type enqueueFunc = func(ctx context.Context, m *storetest.OnModel, r store.EnqueueRequest) (task.ID, store.Enqueued, error)

func (b wrongEnqueue) Enqueue(ctx context.Context, r store.EnqueueRequest) (task.ID, store.Enqueued, error) {
	return b.enqueue(ctx, b.OnModel, r)
}

func enqueueing(f enqueueFunc) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongEnqueue{m, f} }
}

// wrongList is a model that changes filters.
type wrongList struct {
	*storetest.OnModel
	change func(*store.TaskFilter)
}

func (b wrongList) List(ctx context.Context, f store.TaskFilter) ([]store.TaskInfo, error) {
	b.change(&f)
	return b.OnModel.List(ctx, f)
}

func listing(f func(*store.TaskFilter)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongList{m, f} }
}

// wrongStats is a model that miscounts.
type wrongStats struct {
	*storetest.OnModel
	change func(*store.Stats)
}

func (b wrongStats) Stats(ctx context.Context) (store.Stats, error) {
	s, err := b.OnModel.Stats(ctx)
	b.change(&s)
	return s, err
}

// wrongTakers is a model that takes every agent to declare every type.
type wrongTakers struct{ *storetest.OnModel }

func (b wrongTakers) Takers(ctx context.Context, typ string) (store.Takers, error) {
	t, err := b.OnModel.Takers(ctx, typ)
	t.OfType = t.Agents
	return t, err
}

func counting(f func(*store.Stats)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongStats{m, f} }
}

// wrongMaintain is a model that does something else in its housekeeping.
type wrongMaintain struct {
	*storetest.OnModel
	maintain maintainFunc
}

type maintainFunc = func(ctx context.Context, m *storetest.OnModel, retention time.Duration) (int64, error)

func (b wrongMaintain) Maintain(ctx context.Context, retention time.Duration) (int64, error) {
	return b.maintain(ctx, b.OnModel, retention)
}

func maintaining(f maintainFunc) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongMaintain{m, f} }
}

// sleeps wakes none.
type sleeps struct{ *storetest.OnModel }

func (sleeps) Listen(ctx context.Context, _ func(store.News)) error {
	<-ctx.Done()
	return nil
}

// complains returns an error when its listening is over.
type complains struct{ *storetest.OnModel }

func (b complains) Listen(ctx context.Context, wake func(store.News)) error {
	_ = b.OnModel.Listen(ctx, wake)
	return ctx.Err()
}

func otherSabotages() []sabotage {
	return append(enqueueSabotages(), []sabotage{
		{"lists any type", listing(func(f *store.TaskFilter) { f.Type = "" }), "look/filters"},
		{"lists any label", listing(func(f *store.TaskFilter) { f.Labels = nil }), "look/filters"},
		{"lists the first page always", listing(func(f *store.TaskFilter) { f.Before = 0 }), "look/filters"},
		{"lists without end", listing(func(f *store.TaskFilter) { f.Limit = 1000 }), "look/pages"},
		{"has no orphans", counting(func(s *store.Stats) { s.Orphans = nil }), "look/orphans"},
		{"finds takers everywhere", func(m *storetest.OnModel) storetest.Harness { return wrongTakers{m} }, "look/takers"},
		{"counts nothing", counting(func(s *store.Stats) { s.Waiting = nil }), "look/counts by type and state"},
		{"finds nothing late", counting(func(s *store.Stats) { s.OldestDue = nil }), "look/the oldest that is due"},
		{"removes what finished lately", maintaining(
			func(ctx context.Context, m *storetest.OnModel, retention time.Duration) (int64, error) {
				return m.Maintain(ctx, retention/2)
			}), "maintain/only what finished long ago is removed"},
		{"removes nothing", maintaining(func(context.Context, *storetest.OnModel, time.Duration) (int64, error) {
			return 0, nil
		}), "maintain/only what finished long ago is removed"},
		{"removes live rows", maintaining(func(_ context.Context, m *storetest.OnModel, _ time.Duration) (int64, error) {
			m.Tamper(func(live, _ map[task.ID]*model.Row, _ map[task.ID][]model.Attempt) { clear(live) })
			return 0, nil
		}), "maintain/live rows stay for ever"},
		{"removes history by its own age", maintaining(
			func(ctx context.Context, m *storetest.OnModel, retention time.Duration) (int64, error) {
				m.Tamper(func(_, _ map[task.ID]*model.Row, attempts map[task.ID][]model.Attempt) { clear(attempts) })
				return m.Maintain(ctx, retention)
			}), "maintain/history goes with its task"},
		{"wakes none", func(m *storetest.OnModel) storetest.Harness {
			return sleeps{m}
		}, "wake/an insert wakes an idle session"},
		{"listens with an error", func(m *storetest.OnModel) storetest.Harness {
			return complains{m}
		}, "wake/an insert wakes an idle session"},
	}...)
}

func enqueueSabotages() []sabotage {
	return []sabotage{
		{"enqueues a key twice", enqueueing(func(
			ctx context.Context, m *storetest.OnModel, r store.EnqueueRequest,
		) (task.ID, store.Enqueued, error) {
			r.Key = ""
			return m.Enqueue(ctx, r)
		}), "enqueue/a key is live once"},
		{"takes every row for new", enqueueing(func(
			ctx context.Context, m *storetest.OnModel, r store.EnqueueRequest,
		) (task.ID, store.Enqueued, error) {
			id, _, err := m.Enqueue(ctx, r)
			return id, store.EnqueuedInserted, err
		}), "concurrent/one key, many producers"},
		{"keeps keys of finished tasks", enqueueing(
			func(ctx context.Context, m *storetest.OnModel, r store.EnqueueRequest) (id task.ID, answer store.Enqueued, err error) {
				m.Tamper(func(_, archive map[task.ID]*model.Row, _ map[task.ID][]model.Attempt) {
					for _, row := range archive {
						if r.Key != "" && row.Key == r.Key {
							id = row.ID
						}
					}
				})
				if id != 0 {
					return id, store.EnqueuedKept, nil
				}
				return m.Enqueue(ctx, r)
			}), "enqueue/a key is free again when its task is finished"},
		{"mends bad values", enqueueing(func(
			ctx context.Context, m *storetest.OnModel, r store.EnqueueRequest,
		) (task.ID, store.Enqueued, error) {
			r.Priority = max(min(r.Priority, 10), -10)
			return m.Enqueue(ctx, r)
		}), "enqueue/bad values are refused"},
		{"gives bad values an error of no type", enqueueing(
			func(ctx context.Context, m *storetest.OnModel, r store.EnqueueRequest) (task.ID, store.Enqueued, error) {
				id, answer, err := m.Enqueue(ctx, r)
				if err != nil {
					err = errors.New("something went wrong")
				}
				return id, answer, err
			}), "enqueue/bad values are refused"},
		{"rounds big numbers", enqueueing(func(
			ctx context.Context, m *storetest.OnModel, r store.EnqueueRequest,
		) (task.ID, store.Enqueued, error) {
			r.Payload = rounded(r.Payload)
			return m.Enqueue(ctx, r)
		}), "enqueue/payloads come back as they were"},
	}
}

// rounded is JSON that has been through float64.
func rounded(raw json.RawMessage) json.RawMessage {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}
