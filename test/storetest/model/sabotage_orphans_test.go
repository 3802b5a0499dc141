package model_test

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/test/storetest"
)

// wrongMover is a model whose moves of orphans are changed by a function.
type wrongMover struct {
	*storetest.OnModel

	move func(ctx context.Context, m *storetest.OnModel, o store.OrphanStep) (store.OrphansStepped, error)
}

func (m wrongMover) MoveOrphans(ctx context.Context, o store.OrphanStep) (store.OrphansStepped, error) {
	return m.move(ctx, m.OnModel, o)
}

func orphanSabotages() []sabotage {
	moves := func(f func(ctx context.Context, m *storetest.OnModel, o store.OrphanStep) (store.OrphansStepped, error)) wrong {
		return func(m *storetest.OnModel) storetest.Harness { return wrongMover{m, f} }
	}
	return []sabotage{
		{"moves nothing", moves(func(ctx context.Context, m *storetest.OnModel, o store.OrphanStep) (store.OrphansStepped, error) {
			o.Preview = true
			return m.MoveOrphans(ctx, o)
		}), "orphans/moved to another type"},
		{"moves in a preview", moves(func(ctx context.Context, m *storetest.OnModel, o store.OrphanStep) (store.OrphansStepped, error) {
			o.Preview = false
			return m.MoveOrphans(ctx, o)
		}), "orphans/moved with their keys and followers"},
	}
}
