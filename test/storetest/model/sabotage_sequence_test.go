package model_test

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongResolver is a model that resolves no failure.
type wrongResolver struct{ *storetest.OnModel }

func (wrongResolver) SkipSequence(context.Context, string, string, task.ID, string) (task.ID, error) {
	return 0, nil
}

func sequenceSabotages() []sabotage {
	const one, unknown, blocks = "sequences/rows run one after another", "sequences/what may be at work keeps the turn", "sequences/a failure blocks"
	before := func(f func(m *storetest.OnModel)) wrong {
		return promoted(func(ctx context.Context, m *storetest.OnModel, most int) (store.Promoted, error) {
			f(m)
			return m.Promote(ctx, most)
		})
	}
	return []sabotage{
		{"knows no sequences", blurred(
			func(r *model.Row) { r.Sequence = "" },
			func(was model.Row, r *model.Row) { r.Sequence = was.Sequence },
		), one},
		{"never passes a turn on", before(func(m *storetest.OnModel) { m.ForgetTurns(true) }), one},
		{"passes all turns on at once", afterPromotion(func(r *model.Row) { r.Held = "" }), one},
		{"forgets what may be at work", before(func(m *storetest.OnModel) { m.ForgetTurns(false) }), unknown},
		{"forgets failures", before(func(m *storetest.OnModel) { m.ForgetFailures() }), blocks},
		{"lets the head go", before(func(m *storetest.OnModel) { m.ForgetHeads() }), "sequences/a retried row is next"},
		{"skips nothing", func(m *storetest.OnModel) storetest.Harness { return wrongResolver{m} }, "sequences/a skipped failure"},
		{"has the next be due later", afterPromotion(func(r *model.Row) { r.RunAt = r.RunAt.Add(time.Hour) }), one},
	}
}
