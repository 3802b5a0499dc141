package storetest

import (
	"errors"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// resolveSequence does what operators do with a sequence.
func (m *machine) resolveSequence(t *rapid.T) {
	ctx := m.begin()
	typ, name := types(t), rapid.SampledFrom([]string{"p", "q"}).Draw(t, "sequence")
	verb := rapid.SampledFrom([]string{"skip", "skip", "retry", "cancel"}).Draw(t, "verb")
	var want, got task.ID
	var wantErr, err error
	switch verb {
	case "skip":
		want, wantErr = m.ideal.SkipSequence(ctx, typ, name, 0, "ops")
		got, err = m.real.SkipSequence(ctx, typ, name, 0, "ops")
	case "retry":
		want, wantErr = m.ideal.RetrySequence(ctx, typ, name, 0, "ops")
		got, err = m.real.RetrySequence(ctx, typ, name, 0, "ops")
	case "cancel":
		n, wantErr := m.ideal.CancelSequence(ctx, typ, name, "ops")
		require.NoError(m.t, wantErr)
		k, err := m.real.CancelSequence(ctx, typ, name, "ops")
		require.NoError(m.t, err)
		require.Equal(m.t, n, k, "how many are cancelled")
		return
	}
	require.Equal(m.t, errors.Is(wantErr, store.ErrNoSequence), errors.Is(err, store.ErrNoSequence), "%v, %v", wantErr, err)
	var wantRefused, refused *store.RefusedError
	require.Equal(m.t, errors.As(wantErr, &wantRefused), errors.As(err, &refused), "%v, %v", wantErr, err)
	require.Equal(m.t, wantErr == nil, err == nil, "%v, %v", wantErr, err)
	if err == nil {
		require.Equal(m.t, place(m.tasks, func(p pair[task.ID]) task.ID { return p.ideal }, want),
			place(m.tasks, func(p pair[task.ID]) task.ID { return p.real }, got), "whose failure it is")
	}
}

// compareSequences compares what operators see of sequences, and finds what must never be.
func (m *machine) compareSequences(tasks []store.TaskInfo) {
	ctx := m.t.Context()
	want, err := m.ideal.ListSequences(ctx, store.SequenceFilter{})
	require.NoError(m.t, err)
	got, err := m.real.ListSequences(ctx, store.SequenceFilter{})
	require.NoError(m.t, err)
	require.Len(m.t, got.List, len(want.List), "sequences")
	blocked := map[[2]string]bool{}
	for i := range got.List {
		w, g := want.List[i], got.List[i]
		require.Equal(m.t, place(m.tasks, func(p pair[task.ID]) task.ID { return p.ideal }, w.Task),
			place(m.tasks, func(p pair[task.ID]) task.ID { return p.real }, g.Task), "whose turn it is in %s of %s", w.Sequence, w.Type)
		blocked[[2]string{g.Type, g.Sequence}] = g.State == store.SequenceBlocked
		w.Task, g.Task, w.Since = 0, 0, g.Since
		require.Equal(m.t, w, g)
	}
	sequencesAreRight(m.t, tasks, blocked, m.ideal.LocksArePassedOn())
}
