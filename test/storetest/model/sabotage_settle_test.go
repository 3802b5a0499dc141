package model_test

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongSettle is a model that changes the arguments of a settlement, or its effect and its answer.
type wrongSettle struct {
	*storetest.OnModel
	before func(m *storetest.OnModel, s *task.Session, e *store.Settlement)
	after  afterSettle
}

type afterSettle = func(m *storetest.OnModel, rows []store.Settlement, answers []store.Answer)

func (w wrongSettle) Settle(ctx context.Context, s task.Session, rows []store.Settlement) ([]store.Answer, error) {
	rows = slices.Clone(rows)
	for i := range rows {
		if w.before != nil {
			w.before(w.OnModel, &s, &rows[i])
		}
	}
	answers, err := w.OnModel.Settle(ctx, s, rows)
	if w.after != nil {
		w.after(w.OnModel, rows, answers)
	}
	return answers, err
}

func before(f func(m *storetest.OnModel, s *task.Session, e *store.Settlement)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongSettle{m, f, nil} }
}

func after(f afterSettle) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongSettle{m, nil, f} }
}

// says answers one thing for another.
func says(instead, of store.Answer) wrong {
	return after(func(_ *storetest.OnModel, _ []store.Settlement, answers []store.Answer) {
		for i, a := range answers {
			if a == of {
				answers[i] = instead
			}
		}
	})
}

func settleSabotages() []sabotage {
	return append([]sabotage{
		{"ignores the session", before(func(m *storetest.OnModel, s *task.Session, e *store.Settlement) {
			m.Each(func(r *model.Row) {
				if r.ID == e.ID {
					*s = r.Session
				}
			})
		}), "repeat/a foreign session settles nothing"},
		{"ignores the fence", before(func(m *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			m.Each(func(r *model.Row) {
				if r.ID == e.ID {
					e.Fence = r.Fence
				}
			})
		}), "repeat/a stale fence settles nothing"},
		{"says lost for ended", says(store.Lost, store.Ended), "repeat/a finished row's settlement"},
		{"says lost for a release repeated", says(store.Lost, store.Ended), "repeat/a released row's settlement"},
		{"says ended for lost", says(store.Ended, store.Lost), "repeat/a stale fence settles nothing"},
		{"says lost for busy", says(store.Lost, store.Busy), "lease/a row that is kept is busy, not lost"},
		{"says applied for busy", says(store.Applied, store.Busy), "lease/a row that is kept is busy, not lost"},
		{"answers in another order", after(func(_ *storetest.OnModel, _ []store.Settlement, answers []store.Answer) {
			slices.Reverse(answers)
		}), "settle/answers come in the order of the rows"},
	}, append(rowSabotages(), historySabotages()...)...)
}

func rowSabotages() []sabotage {
	return []sabotage{
		{"forgets what is released", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			e.Next.Attempt = e.Attempt
		}), "settle/a released attempt does not count"},
		{"forgets the lease's end", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			e.Next.AfterLease = false
		}), "settle/not before the lease's end"},
		{"sends what never started to the end", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			e.Next.Delay = max(e.Next.Delay, 1)
		}), "settle/a row that was never started keeps its place"},
		{"forgets that it was started", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			e.Next.EverStarted = false
		}), "settle/a row that goes on is released"},
		{"drops the reason", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			e.Next.Reason = ""
		}), "settle/the reason stands in for an error"},
		{"drops results", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			e.Outcome.Result = nil
		}), "settle/a result is kept until there is another"},
		{"does not raise the fence", after(func(m *storetest.OnModel, rows []store.Settlement, answers []store.Answer) {
			m.Each(func(r *model.Row) {
				for i, e := range rows {
					if e.ID == r.ID && answers[i] == store.Applied {
						r.Fence--
					}
				}
			})
		}), "settle/a row that goes on is released"},
		{"loses rows between the tables", after(func(m *storetest.OnModel, _ []store.Settlement, _ []store.Answer) {
			m.Tamper(func(_, archive map[task.ID]*model.Row, _ map[task.ID][]model.Attempt) { clear(archive) })
		}), "settle/a finished row goes to the archive"},
		{"leaves finished rows in both tables", after(leaveInBoth), "settle/a finished row goes to the archive"},
		{"crashes with half of it done", crashHalf, "failpoints/each is hit, and none loses or doubles a row"},
		{"has a failpoint that is never come by", func(m *storetest.OnModel) storetest.Harness {
			return deaf{m}
		}, "failpoints/each is hit, and none loses or doubles a row"},
	}
}

func leaveInBoth(m *storetest.OnModel, _ []store.Settlement, _ []store.Answer) {
	m.Tamper(func(live, archive map[task.ID]*model.Row, _ map[task.ID][]model.Attempt) {
		maps.Copy(live, archive)
	})
}

// crashHalf loses what it was settling where a failpoint strikes.
func crashHalf(m *storetest.OnModel) storetest.Harness {
	return after(func(m *storetest.OnModel, rows []store.Settlement, answers []store.Answer) {
		if answers != nil {
			return
		}
		m.Tamper(func(live, _ map[task.ID]*model.Row, _ map[task.ID][]model.Attempt) { delete(live, rows[0].ID) })
	})(m)
}

// deaf calls no hook.
type deaf struct{ *storetest.OnModel }

func (deaf) Fail(func(string) error) {}

func historySabotages() []sabotage {
	return []sabotage{
		{"writes no history", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			e.Silent = true
		}), "history/what an attempt leaves"},
		{"writes history of the silent", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			e.Silent = false
		}), "history/nothing of the silent"},
		{"names the reaper's fence", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			e.RanFence = e.Fence
		}), "history/the fence that the task saw"},
		{"takes what never started for started", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			e.Started = max(e.Started, 0)
		}), "history/each attempt, oldest first"},
		{"has a lost attempt start when it is reaped", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			e.Started = max(e.Started, 0)
		}), "history/the agent that lost it"},
		{"takes each session for a reaper", after(func(m *storetest.OnModel, rows []store.Settlement, _ []store.Answer) {
			m.Tamper(func(_, _ map[task.ID]*model.Row, attempts map[task.ID][]model.Attempt) {
				for i := range attempts[rows[0].ID] {
					a := &attempts[rows[0].ID][i]
					a.ReapedSession = cmp.Or(a.ReapedSession, a.Session)
				}
			})
		}), "history/an attempt that its own session reaps"},
		{"writes history of what it refused", after(func(m *storetest.OnModel, rows []store.Settlement, _ []store.Answer) {
			m.Tamper(func(_, _ map[task.ID]*model.Row, attempts map[task.ID][]model.Attempt) {
				attempts[rows[0].ID] = make([]model.Attempt, 1)
			})
		}), "history/nothing of what was not applied"},
	}
}
