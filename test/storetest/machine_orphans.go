package storetest

import (
	"context"
	"errors"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// orphans moves or cancels what waits of a type, where no present agent declares it, or counts it.
func (m *machine) orphans(t *rapid.T) {
	ctx := m.begin()
	o := store.OrphanStep{Type: types(t), By: "ops", Preview: rapid.Bool().Draw(t, "preview")}
	move := rapid.IntRange(0, 3).Draw(t, "move") > 0
	if move {
		o.Into = map[string]string{"a": "b", "b": "a"}[o.Type]
	}
	for n, done := 0, false; !done; n++ {
		require.Less(m.t, n, 10, "steps")
		want, wantErr := orphanStep(ctx, m.ideal, o)
		got, err := orphanStep(ctx, m.real, o)
		var wantRefused, refused *store.RefusedError
		require.Equal(m.t, errors.As(wantErr, &wantRefused), errors.As(err, &refused), "%v, %v", wantErr, err)
		if refused != nil {
			return
		}
		require.NoError(m.t, wantErr)
		require.NoError(m.t, err)
		m.placed(&want, onIdeal)
		m.placed(&got, onReal)
		require.Equal(m.t, want, got, "what becomes of orphans")
		done = got.Done
		o.From.Sequences, o.From.Sequence = got.Next.Sequences, got.Next.Sequence // there are few rows: one step has all without a sequence
	}
}

func orphanStep(ctx context.Context, h Harness, o store.OrphanStep) (store.OrphansStepped, error) {
	if o.Into != "" {
		return h.MoveOrphans(ctx, o)
	}
	return h.CancelOrphans(ctx, o)
}

// placed gives tasks their places in the history.
func (m *machine) placed(s *store.OrphansStepped, side func(pair[task.ID]) task.ID) {
	s.Next.ID = 0
	for i := range s.Left {
		s.Left[i].ID = task.ID(place(m.tasks, side, s.Left[i].ID))
	}
}
