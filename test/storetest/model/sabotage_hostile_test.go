package model_test

import (
	"context"
	"errors"
	"strings"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
)

// chokes refuses a whole settlement for one thing that a task said.
type chokes struct {
	*storetest.OnModel
	on func(o task.Outcome) bool
}

func (b chokes) Settle(ctx context.Context, s task.Session, rows []store.Settlement) ([]store.Answer, error) {
	for _, e := range rows {
		if b.on(e.Outcome) {
			return nil, errors.New("invalid byte sequence")
		}
	}
	return b.OnModel.Settle(ctx, s, rows)
}

func choking(on func(o task.Outcome) bool) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return chokes{m, on} }
}

func hostileSabotages() []sabotage {
	return []sabotage{
		{"chokes on what a task printed", choking(func(o task.Outcome) bool {
			return strings.Contains(o.Output, "\x00")
		}), "hostile/whatever a task says, it is settled"},
		{"chokes on what a task returned", choking(func(o task.Outcome) bool {
			return strings.Contains(string(o.Result), `\u0000`)
		}), "hostile/whatever a task returns, it is settled"},
		{"claims for one who has gone", claimed(func(
			ctx context.Context, m *storetest.OnModel, c store.Claim,
		) ([]task.Task, error) {
			return m.Claim(context.WithoutCancel(ctx), c)
		}), "hostile/a context that has ended"},
		{"settles for sessions that have lost the row", before(func(m *storetest.OnModel, s *task.Session, e *store.Settlement) {
			if info, err := m.Get(context.Background(), e.ID); err == nil && info.State.Running() {
				*s, e.Fence = info.Session, info.Fence
			}
		}), "concurrent/thieves"},
	}
}
