package ops

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

// steps is a store that answers with these, one after another, and notes where it was asked to begin.
type steps struct {
	answers []store.OrphansStepped
	from    []store.OrphanStep
}

var errGone = errors.New("the store is gone")

func (*steps) Orphans(context.Context) (all store.OrphanList, err error) { return all, errGone }

func (s *steps) CancelOrphans(_ context.Context, o store.OrphanStep) (store.OrphansStepped, error) {
	s.from = append(s.from, o)
	if len(s.from) > len(s.answers) {
		return store.OrphansStepped{}, errGone
	}
	return s.answers[len(s.from)-1], nil
}

func (s *steps) MoveOrphans(ctx context.Context, o store.OrphanStep) (store.OrphansStepped, error) {
	if o.Into == "" {
		return store.OrphansStepped{}, errGone
	}
	return s.CancelOrphans(ctx, o)
}

func TestOrphansAreChangedStepByStep(t *testing.T) {
	t.Parallel()
	busy := store.OrphanLeft{ID: 7, Reason: store.OrphanBusy, Rows: 1}
	at := store.OrphanCursor{ID: 10}
	change := OrphanChange{Type: "old", By: "alice", Reason: "gone"}
	all := []store.OrphansStepped{
		{Changed: 1000, RollsBack: 2, Next: at, Left: []store.OrphanLeft{busy, {ID: 8, Reason: store.OrphanBusy, Rows: 1}}},
		{Changed: 5, Done: true},
		{Next: at, Left: []store.OrphanLeft{busy}}, {Changed: 1, Done: true}, // another pass
		{Left: []store.OrphanLeft{busy}, Done: true}, // which changes nothing
	}
	s := &steps{answers: all}
	got, err := ChangeOrphans(t.Context(), s, change, false)
	require.NoError(t, err)
	require.Equal(t, OrphansChanged{Type: "old", Changed: 1006, RollsBack: 2, Stay: 1, Left: []store.OrphanLeft{busy}}, got)
	step := store.OrphanStep{Type: "old", By: "alice", Reason: "gone"}
	next := step
	next.From = at
	require.Equal(t, []store.OrphanStep{step, next, step, next, step}, s.from)

	s = &steps{answers: all}
	got, err = ChangeOrphans(t.Context(), s, change, true)
	require.NoError(t, err)
	require.Equal(t, 1005, got.Changed)
	require.Equal(t, 2, got.Stay)
	require.True(t, got.DryRun)
	require.Len(t, s.from, 2, "a preview is one pass")
	require.True(t, s.from[1].Preview)

	s = &steps{answers: all[:1]}
	got, err = ChangeOrphans(t.Context(), s, change, false)
	require.ErrorIs(t, err, errGone)
	require.Equal(t, 1000, got.Changed, "what was done before")

	s = &steps{answers: []store.OrphansStepped{{Done: true}}}
	got, err = ChangeOrphans(t.Context(), s, OrphanChange{Type: "old", Into: "new"}, false)
	require.NoError(t, err)
	require.Equal(t, OrphansChanged{Type: "old", Into: "new"}, got)
	require.Equal(t, []store.OrphanStep{{Type: "old", Into: "new"}}, s.from)

	for _, wrong := range []OrphanChange{{}, {Type: "a\x00"}, {Type: "a", Reason: strings.Repeat("x", 513)}, {Type: "a", By: "\xff"}, {Type: "a", Into: "a"}, {Type: "a", Into: "\xff"}} {
		s = &steps{}
		_, err := ChangeOrphans(t.Context(), s, wrong, false)
		require.ErrorAs(t, err, new(*store.InputError))
		require.Empty(t, s.from)
	}
}
