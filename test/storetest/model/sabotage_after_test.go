package model_test

import (
	"context"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongUnblock is a model whose Unblock is another function.
type wrongUnblock struct {
	*storetest.OnModel
	unblock unblockFunc
}

type unblockFunc = func(ctx context.Context, m *storetest.OnModel, most int) (store.Unblocked, error)

func (w wrongUnblock) Unblock(ctx context.Context, most int) (store.Unblocked, error) {
	return w.unblock(ctx, w.OnModel, most)
}

func unblocked(f unblockFunc) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongUnblock{m, f} }
}

// beforeUnblock breaks rows before any of them is freed.
func beforeUnblock(f func(r *model.Row)) wrong {
	return unblocked(func(ctx context.Context, m *storetest.OnModel, most int) (store.Unblocked, error) {
		m.Each(f)
		return m.Unblock(ctx, most)
	})
}

// afterUnblock breaks rows once some were freed.
func afterUnblock(f func(r *model.Row)) wrong {
	return unblocked(func(ctx context.Context, m *storetest.OnModel, most int) (store.Unblocked, error) {
		u, err := m.Unblock(ctx, most)
		m.Each(f)
		return u, err
	})
}

// finished breaks rows that have ended.
func finished(m *storetest.OnModel, f func(r *model.Row)) {
	m.Tamper(func(_, archive map[task.ID]*model.Row, _ map[task.ID][]model.Attempt) {
		for _, r := range archive {
			f(r)
		}
	})
}

// onceFinished breaks rows that have ended, after a step or before it.
func onceFinished(before bool, f func(r *model.Row)) wrong {
	return unblocked(func(ctx context.Context, m *storetest.OnModel, most int) (store.Unblocked, error) {
		if before {
			finished(m, f)
		}
		u, err := m.Unblock(ctx, most)
		finished(m, f)
		return u, err
	})
}

// wrongPredecessors is a model that has runs know something else.
type wrongPredecessors struct {
	*storetest.OnModel
	change func(after *task.After)
}

func (w wrongPredecessors) Predecessors(ctx context.Context, id task.ID) (task.After, error) {
	after, err := w.OnModel.Predecessors(ctx, id)
	w.change(&after)
	return after, err
}

func predecessors(change func(after *task.After)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongPredecessors{m, change} }
}

func afterSabotages() []sabotage {
	const one, failed = "after/a row waits until the other has ended", "after/one that did not succeed cancels it"
	first := func(r *model.Row) {
		if len(r.After) > 1 {
			r.After = r.After[:1]
		}
	}
	return []sabotage{
		{"has runs know no results", predecessors(func(after *task.After) {
			for i := range after.Tasks {
				after.Tasks[i].Result = nil
			}
		}), "after/a run gets to know what it has waited for"},
		{"hides from runs that there is more", predecessors(func(after *task.After) { after.Truncated = false }), "after/but not more than so much"},
		{"lets none wait", blurred(
			func(*model.Row) {},
			func(_ model.Row, r *model.Row) { r.Held = "" },
		), one},
		{"never frees", unblocked(func(context.Context, *storetest.OnModel, int) (store.Unblocked, error) {
			return store.Unblocked{}, nil
		}), one},
		{"frees all", afterUnblock(func(r *model.Row) { r.Held = "" }), one},
		{"has the freed be due later", afterUnblock(func(r *model.Row) { r.RunAt = r.RunAt.Add(time.Hour) }), one},
		{"has what is due later be due now", afterUnblock(func(r *model.Row) { r.RunAt = r.CreatedAt }), "after/what waits is not due"},
		{"wants no success", beforeUnblock(func(r *model.Row) { r.AfterIf = store.AfterIfAny }), failed},
		{"always wants success", beforeUnblock(func(r *model.Row) { r.AfterIf = store.AfterIfSucceeded }), "after/or does not"},
		{"waits for the first only", beforeUnblock(first), "after/all of them have to end"},
		{"does not say why", onceFinished(false, func(r *model.Row) { r.Error = "" }), failed},
		{"forgets what may be at work", onceFinished(true, func(r *model.Row) { r.LeaseEnd = time.Time{} }), "after/what may be at work is waited for"},
		{"forgets on account of which it was cancelled", onceFinished(false, func(r *model.Row) { r.CancelledFor = 0 }), "after/it is seen"},
		{"revives none", onceFinished(true, func(r *model.Row) { r.CancelledFor = 0 }), "after/a retry revives what was cancelled for it"},
		{"does not say why it was not revived", onceFinished(false, func(r *model.Row) {
			r.Error, _, _ = strings.Cut(r.Error, store.NotRevived)
		}), "after/not what cannot"},
		{"frees what was revived with another", afterUnblock(func(r *model.Row) {
			if r.Round > 0 && r.Held == task.HoldAfter && r.Key != "" {
				r.Held = ""
			}
		}), "after/not what cannot"},
		{"frees what was revived", afterUnblock(func(r *model.Row) {
			if r.Round > 0 && r.Held == task.HoldAfter {
				r.Held = ""
			}
		}), "after/a revived row waits anew if it never started"},
	}
}
