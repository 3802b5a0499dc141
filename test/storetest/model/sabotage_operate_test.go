package model_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongOps is a model that changes its rows before and after what operators and batches do, by Go.
type wrongOps struct {
	*storetest.OnModel
	before, after func(m *storetest.OnModel, call string, id task.ID)
}

func (b wrongOps) around(call string, id task.ID) (done func()) {
	if b.before != nil {
		b.before(b.OnModel, call, id)
	}
	return func() {
		if b.after != nil {
			b.after(b.OnModel, call, id)
		}
	}
}

func (b wrongOps) Cancel(ctx context.Context, id task.ID, by string) (store.Became, error) {
	defer b.around("cancel", id)()
	return b.OnModel.Cancel(ctx, id, by)
}

func (b wrongOps) Retry(ctx context.Context, id task.ID, by string) (store.Became, error) {
	defer b.around("retry", id)()
	return b.OnModel.Retry(ctx, id, by)
}

func (b wrongOps) Rollback(ctx context.Context, id task.ID, by string) (store.Became, error) {
	defer b.around("rollback", id)()
	return b.OnModel.Rollback(ctx, id, by)
}

func (b wrongOps) RetryBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	defer b.around("retry batch", 0)()
	return b.OnModel.RetryBatch(ctx, id, by)
}

func (b wrongOps) Fold(ctx context.Context, limit int) (store.Folded, error) {
	defer b.around("fold", 0)()
	return b.OnModel.Fold(ctx, limit)
}

func (b wrongOps) Step(ctx context.Context, rows int) (store.Stepped, error) {
	defer b.around("step", 0)()
	return b.OnModel.Step(ctx, rows)
}

func (b wrongOps) Claim(ctx context.Context, c store.Claim) ([]task.Task, error) {
	defer b.around("claim", 0)()
	return b.OnModel.Claim(ctx, c)
}

func (b wrongOps) Maintain(ctx context.Context, retention time.Duration) (int64, error) {
	defer b.around("maintain", 0)()
	return b.OnModel.Maintain(ctx, retention)
}

// row gives f the row of that id, wherever it stands.
func row(m *storetest.OnModel, id task.ID, f func(r *model.Row)) {
	m.Tamper(func(live, archive map[task.ID]*model.Row, _ map[task.ID][]model.Attempt) {
		for _, table := range []map[task.ID]*model.Row{live, archive} {
			if r := table[id]; r != nil {
				f(r)
			}
		}
	})
}

// rowAfter changes the row that a call was about.
func rowAfter(call string, f func(r *model.Row)) wrong {
	return func(m *storetest.OnModel) storetest.Harness {
		return wrongOps{m, nil, func(m *storetest.OnModel, did string, id task.ID) {
			if did == call {
				row(m, id, f)
			}
		}}
	}
}

// rowBefore changes the row that a call is about.
func rowBefore(call string, f func(r *model.Row)) wrong {
	return func(m *storetest.OnModel) storetest.Harness {
		return wrongOps{m, func(m *storetest.OnModel, does string, id task.ID) {
			if does == call {
				row(m, id, f)
			}
		}, nil}
	}
}

// historyAfter changes the history of the row that a call was about.
func historyAfter(call string, f func([]model.Attempt) []model.Attempt) wrong {
	return func(m *storetest.OnModel) storetest.Harness {
		return wrongOps{m, nil, func(m *storetest.OnModel, did string, id task.ID) {
			if did == call {
				m.Tamper(func(_, _ map[task.ID]*model.Row, attempts map[task.ID][]model.Attempt) {
					attempts[id] = f(attempts[id])
				})
			}
		}}
	}
}

// settledRows changes the rows that were settled, wherever they stand.
func settledRows(f func(r *model.Row, e store.Settlement)) wrong {
	return after(func(m *storetest.OnModel, rows []store.Settlement, _ []store.Answer) {
		for _, e := range rows {
			row(m, e.ID, func(r *model.Row) { f(r, e) })
		}
	})
}

func operateSabotages() []sabotage {
	return slices.Concat(rollbackSabotages(), []sabotage{
		{"retries on what is left of the budget", rowAfter("retry", func(r *model.Row) { r.Attempt = 1 }), "retry/what it writes"},
		{"keeps the fence of what it retries", rowAfter("retry", func(r *model.Row) { r.Fence-- }), "retry/what it writes"},
		{"counts no rounds", rowAfter("retry", func(r *model.Row) { r.Round = 1 }), "retry/again and again"},
		{"retries without history", historyAfter("retry", func([]model.Attempt) []model.Attempt { return nil }),
			"retry/the attempt that ended leaves its history"},
		{"doubles history", historyAfter("retry", func(a []model.Attempt) []model.Attempt { return append(a, a[len(a)-1]) }),
			"retry/an attempt that has its history leaves no other"},
		{"forgets that it was started", rowAfter("retry", func(r *model.Row) { r.EverStarted = false }),
			"retry/what was started is rolled back if it is cancelled"},
		{"keeps what was rolled back for started", rowAfter("retry", func(r *model.Row) { r.EverStarted = true }),
			"retry/what was rolled back counts as never started"},
		{"retries whatever the key", rowBefore("retry", func(r *model.Row) { r.Key = "" }), "retry/a live row with its key"},
		{"retries what could not be rolled back", rowBefore("retry", func(r *model.Row) {
			if r.State == task.StateRollbackFailed {
				r.State = task.StateFailed
			}
		}), "retry/in any other state"},
		{"notes nothing", auditing(func(a []model.Audit) []model.Audit { return nil }), "retry/the requester is noted"},
		{"notes what changed nothing", auditing(func(a []model.Audit) []model.Audit {
			return append(a, model.Audit{Verb: "retry"})
		}), "retry/in any other state"},
		{"rolls back what never started", rowBefore("rollback", func(r *model.Row) { r.EverStarted = true }), "rollback/in every state"},
		{"rolls back what cannot be", func(m *storetest.OnModel) storetest.Harness { return bold{m} },
			"rollback/in every state, of a type that cannot be rolled back"},
		{"rolls back on what is left of the budget", rowAfter("rollback", func(r *model.Row) { r.Attempt = 2 }), "rollback/in every state"},
		{"says that all was cancelled", rowAfter("rollback", func(r *model.Row) { r.Cause = task.Cancelled }), "rollback/the cause"},
		{"rolls back at once what may be at work", rowAfter("rollback", func(r *model.Row) { r.RunAt = r.CreatedAt }),
			"rollback/while it waits, and something may be at work"},
		{"forgets who runs", func(m *storetest.OnModel) storetest.Harness {
			return wrongOps{m, nil, func(m *storetest.OnModel, _ string, _ task.ID) {
				m.TamperBatches(func(_ map[task.BatchID]*model.Batch, operations []*model.Operation, _ *[]model.Audit) {
					for _, o := range operations {
						o.Over = o.Over || o.Task != 0
					}
				})
			}}
		}, "rollback/of one that runs, and then succeeds"},
		{"carries on nothing but the oldest", oneAtATime, "rollback/those that run keep no other waiting"},
	})
}

func rollbackSabotages() []sabotage {
	return []sabotage{
		{"takes the rollback's result for the run's", settledRows(func(r *model.Row, e store.Settlement) {
			if e.Outcome.Result != nil {
				r.Result = e.Outcome.Result
			}
		}), "rollback_phase/the run's result stays"},
		{"forgets what may be at work", settledRows(func(r *model.Row, _ store.Settlement) { r.LeaseEnd = time.Time{} }),
			"rollback_phase/a row of which something may be at work keeps its lease's end"},
		{"revives at once", rowAfter("retry", func(r *model.Row) { r.RunAt = r.CreatedAt }),
			"rollback_phase/revived while something may be at work"},
		{"cancels at once", rowAfter("cancel", func(r *model.Row) { r.RunAt = r.CreatedAt }),
			"rollback_phase/cancelled while something may be at work"},
		{"knows no cause", settledRows(func(r *model.Row, _ store.Settlement) { r.Cause = "" }), "rollback_phase/the cause is how the run ended"},
		{"takes the last end for the cause", settledRows(func(r *model.Row, _ store.Settlement) { r.Cause = r.Outcome }),
			"rollback_phase/the cause stays"},
		{"gives a rollback nothing", claimed(func(ctx context.Context, m *storetest.OnModel, c store.Claim) ([]task.Task, error) {
			rows, err := m.Claim(ctx, c)
			for i := range rows {
				rows[i].RollbackPayload, rows[i].Result = nil, nil
			}
			return rows, err
		}), "rollback_phase/what a rollback gets"},
	}
}

// auditing changes the audit after each retry.
func auditing(f func([]model.Audit) []model.Audit) wrong {
	return func(m *storetest.OnModel) storetest.Harness {
		return wrongOps{m, nil, func(m *storetest.OnModel, did string, _ task.ID) {
			if did == "retry" {
				m.TamperBatches(func(_ map[task.BatchID]*model.Batch, _ []*model.Operation, audit *[]model.Audit) { *audit = f(*audit) })
			}
		}}
	}
}

// bold rolls back any task, whatever its type.
type bold struct{ *storetest.OnModel }

func (b bold) Rollback(ctx context.Context, id task.ID, by string) (store.Became, error) {
	got, err := b.OnModel.Rollback(ctx, id, by)
	if _, is := errors.AsType[*store.RefusedError](err); is {
		return store.Became(task.StateRollbackPending), nil
	}
	return got, err
}

// oneAtATime carries on the oldest operation, and no other before that is over.
func oneAtATime(m *storetest.OnModel) storetest.Harness {
	var hidden []*model.Operation
	hide := func(_ map[task.BatchID]*model.Batch, operations []*model.Operation, _ *[]model.Audit) {
		first := true
		for _, o := range operations {
			if !o.Over && !first {
				o.Over = true
				hidden = append(hidden, o)
			}
			first = first && o.Over
		}
	}
	show := func(map[task.BatchID]*model.Batch, []*model.Operation, *[]model.Audit) {
		for _, o := range hidden {
			o.Over = false
		}
		hidden = nil
	}
	return wrongOps{m, func(m *storetest.OnModel, does string, _ task.ID) {
		if does == "step" {
			m.TamperBatches(hide)
		}
	}, func(m *storetest.OnModel, did string, _ task.ID) {
		if did == "step" {
			m.TamperBatches(show)
		}
	}}
}
