package model_test

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongPromote is a model whose Promote is another function.
type wrongPromote struct {
	*storetest.OnModel
	promote promoteFunc
}

type promoteFunc = func(ctx context.Context, m *storetest.OnModel, most int) (store.Promoted, error)

func (w wrongPromote) Promote(ctx context.Context, most int) (store.Promoted, error) {
	return w.promote(ctx, w.OnModel, most)
}

func promoted(f promoteFunc) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongPromote{m, f} }
}

// afterPromotion breaks rows once locks were passed on.
func afterPromotion(f func(r *model.Row)) wrong {
	return promoted(func(ctx context.Context, m *storetest.OnModel, most int) (store.Promoted, error) {
		p, err := m.Promote(ctx, most)
		m.Each(f)
		return p, err
	})
}

func lockSabotages() []sabotage {
	const one, unknown = "locks/one row of a lock runs at once", "locks/what may be at work keeps it"
	forgets := func(all bool) wrong {
		return promoted(func(ctx context.Context, m *storetest.OnModel, most int) (store.Promoted, error) {
			m.ForgetLockNotes(all)
			return m.Promote(ctx, most)
		})
	}
	return []sabotage{
		{"knows no locks", blurred(
			func(r *model.Row) { r.Lock = "" },
			func(was model.Row, r *model.Row) { r.Lock = was.Lock },
		), one},
		{"knows locks of one type only", blurred(
			func(r *model.Row) { r.Lock = r.Type + r.Lock },
			func(was model.Row, r *model.Row) { r.Lock = was.Lock },
		), "locks/two types have one lock"},
		{"holds nothing back", blurred(
			func(*model.Row) {},
			func(_ model.Row, r *model.Row) { r.Held = "" },
		), one},
		{"never promotes", forgets(true), one},
		{"promotes all", afterPromotion(func(r *model.Row) { r.Held = "" }), one},
		{"forgets what may be at work", forgets(false), unknown},
		{"forgets when the next is free", promoted(func(ctx context.Context, m *storetest.OnModel, most int) (store.Promoted, error) {
			p, err := m.Promote(ctx, most)
			p.Next = 0
			return p, err
		}), unknown},
		{"has the promoted be due later", afterPromotion(func(r *model.Row) { r.RunAt = r.RunAt.Add(time.Hour) }), one},
		{"forgets the order", blurred(
			func(r *model.Row) { r.Priority = 0 },
			func(was model.Row, r *model.Row) { r.Priority = was.Priority },
		), "locks/the next is the first in the order of claims"},
	}
}
