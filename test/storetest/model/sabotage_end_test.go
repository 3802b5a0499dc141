package model_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongApplication is a model whose applications' transactions are others.
type wrongApplication struct {
	*storetest.OnModel
	wrap func(*storetest.OnModel, storetest.Application) storetest.Application
}

func applying(wrap func(*storetest.OnModel, storetest.Application) storetest.Application) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongApplication{m, wrap} }
}

// wrongComplete is a model that changes the arguments of a completion, or its rows after it.
type wrongComplete struct {
	*storetest.OnModel
	before func(m *storetest.OnModel, id task.ID, f *task.Fence, result *json.RawMessage)
	after  func(m *storetest.OnModel, id task.ID, a *store.Answer)
}

func (b wrongComplete) Complete(
	ctx context.Context, id task.ID, f task.Fence, result json.RawMessage,
) (store.Answer, error) {
	if b.before != nil {
		b.before(b.OnModel, id, &f, &result)
	}
	a, err := b.OnModel.Complete(ctx, id, f, result)
	if b.after != nil {
		b.after(b.OnModel, id, &a)
	}
	return a, err
}

func completing(before func(*storetest.OnModel, task.ID, *task.Fence, *json.RawMessage)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongComplete{m, before, nil} }
}

func completedBy(after func(*storetest.OnModel, task.ID, *store.Answer)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongComplete{m, nil, after} }
}

func completeSabotages() []sabotage {
	return []sabotage{
		{"completes whatever the fence", completing(func(m *storetest.OnModel, id task.ID, f *task.Fence, _ *json.RawMessage) {
			of(m, id, func(r *model.Row) { *f = r.Fence })
		}), "complete/a stale fence completes nothing"},
		{"completes what is reaped", completing(func(m *storetest.OnModel, id task.ID, _ *task.Fence, _ *json.RawMessage) {
			of(m, id, func(r *model.Row) { r.Claim = max(r.Claim, 1) })
		}), "complete/a row that is reaped is not completed"},
		{"drops results", completing(func(_ *storetest.OnModel, _ task.ID, _ *task.Fence, result *json.RawMessage) {
			*result = nil
		}), "complete/what it writes"},
		{"says lost for a repeat", completedBy(func(_ *storetest.OnModel, _ task.ID, a *store.Answer) {
			if *a == store.Ended {
				*a = store.Lost
			}
		}), "complete/a repeat finds itself done"},
		{"completes without history", completedBy(func(m *storetest.OnModel, id task.ID, _ *store.Answer) {
			m.Tamper(func(_, _ map[task.ID]*model.Row, attempts map[task.ID][]model.Attempt) {
				attempts[id] = attempts[id][:min(1, len(attempts[id]))]
			})
		}), "complete/a later attempt leaves its history"},
		{"completes for another session", completedBy(func(m *storetest.OnModel, id task.ID, _ *store.Answer) {
			m.Tamper(func(_, archive map[task.ID]*model.Row, _ map[task.ID][]model.Attempt) { archive[id].Session++ })
		}), "complete/then settle"},
		{"never finds a completion", func(m *storetest.OnModel) storetest.Harness { return blind{m} }, "complete/a session learns of it"},
		{"completes at once", applying(func(m *storetest.OnModel, a storetest.Application) storetest.Application {
			return hasty{a, m}
		}), "complete/taken back"},
		{"completes what is kept", func(m *storetest.OnModel) storetest.Harness { return ruthless{m} },
			"hold/no session takes a held row away"},
		{"holds nothing", applying(func(_ *storetest.OnModel, a storetest.Application) storetest.Application {
			return loose{a}
		}), "hold/no session takes a held row away"},
		{"holds whatever the fence", applying(func(_ *storetest.OnModel, a storetest.Application) storetest.Application {
			return loose{a}
		}), "hold/a stale fence holds nothing"},
		{"holds what has ended", applying(func(_ *storetest.OnModel, a storetest.Application) storetest.Application {
			return loose{a}
		}), "hold/a lease that has ended is not held"},
	}
}

func (b wrongApplication) Begin(testing.TB) storetest.Application {
	return b.wrap(b.OnModel, b.Store.Begin())
}

// blind sees nothing completed.
type blind struct{ *storetest.OnModel }

func (blind) Completed(_ context.Context, rows []store.Held) ([]bool, error) {
	return make([]bool, len(rows)), nil
}

// hasty completes before the commit.
type hasty struct {
	storetest.Application
	m *storetest.OnModel
}

func (b hasty) Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) error {
	_, err := b.m.Complete(ctx, id, f, result)
	return err
}

// ruthless completes rows that are kept.
type ruthless struct{ *storetest.OnModel }

func (b ruthless) Complete(ctx context.Context, id task.ID, f task.Fence, r json.RawMessage) (store.Answer, error) {
	a, err := b.OnModel.Complete(ctx, id, f, r)
	if a == store.Busy {
		a = store.Applied
	}
	return a, err
}

// loose holds nothing, and says that it does.
type loose struct{ storetest.Application }

func (loose) Hold(context.Context, task.ID, task.Fence) error { return nil }

// wrongCancel is a model that changes its rows after a cancellation.
type wrongCancel struct {
	*storetest.OnModel
	before func(r *model.Row)
	after  func(r *model.Row)
	says   func(store.Became) store.Became
}

func (b wrongCancel) Cancel(ctx context.Context, id task.ID, by string) (store.Became, error) {
	do := func(f func(*model.Row)) {
		if f == nil {
			return
		}
		b.Tamper(func(live, archive map[task.ID]*model.Row, _ map[task.ID][]model.Attempt) {
			for _, table := range []map[task.ID]*model.Row{live, archive} {
				if r := table[id]; r != nil {
					f(r)
				}
			}
		})
	}
	do(b.before)
	c, err := b.OnModel.Cancel(ctx, id, by)
	do(b.after)
	if b.says != nil {
		c = b.says(c)
	}
	return c, err
}

func cancelling(before, after func(*model.Row), says func(store.Became) store.Became) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongCancel{m, before, after, says} }
}

func cancelSabotages() []sabotage {
	return []sabotage{
		{"keeps the fence of what it cancels", cancelling(nil, func(r *model.Row) {
			if r.State == task.StateCancelled && r.Outcome == task.Cancelled {
				r.Fence = 0
			}
		}, nil), "cancel/before it started"},
		{"rolls back what never started", cancelling(func(r *model.Row) { r.EverStarted = true }, nil, nil), "cancel/while it waited"},
		{"rolls back nothing", cancelling(func(r *model.Row) {
			if r.State.Waiting() {
				r.Policy = 0
			}
		}, nil, nil), "cancel/while it waited, and it can be rolled back"},
		{"lets the last word stand", cancelling(func(r *model.Row) { r.CancelRequested = time.Time{} }, nil, nil), "cancel/while it runs"},
		{"cancels what is rolled back", cancelling(nil, func(r *model.Row) {
			if r.State == task.StateRollbackRunning {
				r.CancelRequested = r.ClaimedAt
			}
		}, nil), "cancel/while it is rolled back"},
		{"cancels what has ended", cancelling(nil, func(r *model.Row) {
			if r.State.Finished() {
				r.State = task.StateCancelled
			}
		}, nil), "cancel/when it has ended"},
		{"says that all is cancelled", cancelling(nil, nil, func(store.Became) store.Became { return "cancelled" }), "cancel/while it runs"},
		{"takes every decision for one that knew", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			e.CancelKnown = true
		}), "cancel/a decision that did not know of it"},
		{"believes in no knowledge", after(func(_ *storetest.OnModel, rows []store.Settlement, answers []store.Answer) {
			for i, e := range rows {
				if e.CancelKnown {
					answers[i] = store.CancelPending
				}
			}
		}), "cancel/a decision that knew of it"},
		{"remembers the request", after(func(m *storetest.OnModel, _ []store.Settlement, _ []store.Answer) {
			m.Each(func(r *model.Row) { r.CancelRequested = r.CreatedAt })
		}), "cancel/the request ends with the attempt"},
		{"reaps without notifying", func(m *storetest.OnModel) storetest.Harness {
			return wrongSweep{m, nil, func(_ *storetest.OnModel, reaped []store.Reaped) {
				for i := range reaped {
					reaped[i].CancelRequested = false
				}
			}, 0}
		}, "cancel/while it is reaped"},
		{"does not notify its session", presenting(func(_ *storetest.OnModel, _ store.Heartbeat, st *store.HeartbeatReply) {
			for i := range st.Held {
				st.Held[i].CancelRequested = false
			}
		}), "cancel/while it runs"},
		{"wakes none for a cancellation", func(m *storetest.OnModel) storetest.Harness { return deafened{m} },
			"cancel/a request wakes listeners"},
	}
}

// deafened reports only inserts after its first news.
type deafened struct{ *storetest.OnModel }

func (b deafened) Listen(ctx context.Context, wake func(store.News)) error {
	var first sync.Once
	return b.OnModel.Listen(ctx, func(n store.News) {
		first.Do(func() { wake(n) })
		wake(store.Due)
	})
}

// wrongAdopt is a model that changes the arguments of an adoption, or its reply.
type wrongAdopt struct {
	*storetest.OnModel
	before func(m *storetest.OnModel, id task.ID, f *task.Fence)
	after  func(m *storetest.OnModel, reaped *store.Reaped, a *store.Answer)
}

func (b wrongAdopt) Adopt(
	ctx context.Context, s task.Session, id task.ID, f task.Fence, reapFor time.Duration,
) (*store.Reaped, store.Answer, error) {
	if b.before != nil {
		b.before(b.OnModel, id, &f)
	}
	reaped, a, err := b.OnModel.Adopt(ctx, s, id, f, reapFor)
	if b.after != nil {
		b.after(b.OnModel, reaped, &a)
	}
	return reaped, a, err
}

func adopting(before func(*storetest.OnModel, task.ID, *task.Fence)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongAdopt{m, before, nil} }
}

func adopted(after func(*storetest.OnModel, *store.Reaped, *store.Answer)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongAdopt{m, nil, after} }
}

func adoptSabotages() []sabotage {
	instead := func(says, of store.Answer) func(*storetest.OnModel, *store.Reaped, *store.Answer) {
		return func(_ *storetest.OnModel, _ *store.Reaped, a *store.Answer) {
			if *a == of {
				*a = says
			}
		}
	}
	return []sabotage{
		{"adopts whatever the fence", adopting(func(m *storetest.OnModel, id task.ID, f *task.Fence) {
			of(m, id, func(r *model.Row) { *f = r.Fence })
		}), "adopt/a stale fence adopts nothing"},
		{"adopts what is another's", adopting(func(m *storetest.OnModel, id task.ID, _ *task.Fence) {
			of(m, id, func(r *model.Row) { r.Detached = true })
		}), "adopt/not from another that runs it"},
		{"adopts without raising the fence", adopted(func(m *storetest.OnModel, s *store.Reaped, _ *store.Answer) {
			if s != nil {
				of(m, s.ID, func(r *model.Row) { r.Fence-- })
				s.Fence--
			}
		}), "adopt/what it returns and writes"},
		{"says lost for what is reaped", adopted(instead(store.Lost, store.Ended)), "adopt/a repeat when it is reaped"},
		{"says lost for a row that is being reaped", adopted(instead(store.Lost, store.Busy)), "adopt/a repeat by another"},
		{"says ended for lost", adopted(instead(store.Ended, store.Lost)), "adopt/a stale fence adopts nothing"},
		{"adopts without returning the request", adopted(func(_ *storetest.OnModel, s *store.Reaped, _ *store.Answer) {
			if s != nil {
				s.CancelRequested = false
			}
		}), "adopt/what it returns and writes"},
		{"has a secret for each agent", func(m *storetest.OnModel) storetest.Harness { return secretive{m} },
			"ping/the secret is the store's"},
	}
}

// secretive has a new key each time.
type secretive struct{ *storetest.OnModel }

func (b secretive) Secret(ctx context.Context) ([]byte, error) {
	key, err := b.OnModel.Secret(ctx)
	return append([]byte(time.Now().String()), key...), err
}
