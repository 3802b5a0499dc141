package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// changed is a store with batch 17, which records what was asked of it.
type changed struct {
	Batches
	asked   []string
	refused error
}

func (c *changed) ask(id task.BatchID, format string, args ...any) (string, error) {
	if id != 17 {
		return "", fmt.Errorf("change batch: %w", store.ErrNoBatch)
	}
	c.asked = append(c.asked, fmt.Sprintf(format, args...))
	return c.asked[len(c.asked)-1], c.refused
}

func (c *changed) GetBatch(_ context.Context, id task.BatchID) (*store.BatchInfo, error) {
	_, err := c.ask(id, "get")
	return half(), err
}

func (c *changed) SealBatch(_ context.Context, id task.BatchID) (string, error) {
	return c.ask(id, "seal")
}

func (c *changed) CancelBatch(_ context.Context, id task.BatchID, by string) (string, error) {
	return c.ask(id, "cancel by %s", by)
}

func (c *changed) RetryBatch(_ context.Context, id task.BatchID, by string) (string, error) {
	return c.ask(id, "retry by %s", by)
}

func (c *changed) RollbackBatch(_ context.Context, id task.BatchID, by string, force bool) (string, error) {
	return c.ask(id, "rollback by %s, force %t", by, force)
}

func TestChangeBatch(t *testing.T) {
	s := &changed{}
	for want, c := range map[string]BatchChange{
		"cancel by alice":                {Verb: VerbCancel, By: "alice", Force: true},
		"retry by ":                      {Verb: VerbRetry},
		"rollback by alice, force false": {Verb: VerbRollback, By: "alice"},
		"rollback by alice, force true":  {Verb: VerbRollback, By: "alice", Force: true},
	} {
		became, err := ChangeBatch(t.Context(), s, 17, c)
		require.NoError(t, err)
		require.Equal(t, want, became)
		_, err = ChangeBatch(t.Context(), s, 18, c)
		require.ErrorIs(t, err, store.ErrNoBatch)
		require.EqualError(t, err, "batch 18: no such batch (or its retention is over)")
		_, _, err = CountChange(t.Context(), s, 18, c)
		require.EqualError(t, err, "batch 18: no such batch (or its retention is over)")
	}
	became, err := SealBatch(t.Context(), s, 17)
	require.NoError(t, err)
	require.Equal(t, "seal", became)
	_, err = SealBatch(t.Context(), s, 18)
	require.EqualError(t, err, "batch 18: no such batch (or its retention is over)")

	s.refused = &store.RefusedError{Text: "it is being rolled back"}
	_, err = ChangeBatch(t.Context(), s, 17, BatchChange{Verb: VerbRetry})
	require.ErrorAs(t, err, new(*store.RefusedError))
}

func TestChangeBatchRefusesWhatNoStoreTakes(t *testing.T) {
	s := &changed{}
	for _, c := range []BatchChange{{}, {Verb: "explode"}, {Verb: VerbCancel, By: strings.Repeat("x", store.MaxBy+1)}, {Verb: VerbRetry, By: "\xff"}} {
		_, err := ChangeBatch(t.Context(), s, 17, c)
		require.ErrorAs(t, err, new(*store.InputError))
	}
	require.Empty(t, s.asked)
}

func TestBatchChangeAffects(t *testing.T) {
	b := &store.BatchInfo{Waiting: 1, Running: 2, RollingBack: 4, Succeeded: 8, Failed: 16, Cancelled: 32, RolledBack: 64, RollbackFailed: 128}
	for verb, want := range map[Verb]int64{
		VerbCancel: 1 + 2, VerbRetry: 16 + 64, VerbRollback: 1 + 2 + 8 + 16 + 32, "": 0,
	} {
		require.Equal(t, want, BatchChange{Verb: verb}.Affects(b), verb)
	}
	s := &changed{}
	got, n, err := CountChange(t.Context(), s, 17, BatchChange{Verb: VerbCancel})
	require.NoError(t, err)
	require.Equal(t, half(), got)
	require.EqualValues(t, 500, n)
	require.Equal(t, []string{"get"}, s.asked, "nothing is changed")
}

func TestReadBatch(t *testing.T) {
	s := &course{at: func(time.Duration) (*store.BatchInfo, error) { return half(), nil }}
	d, err := ReadBatch(t.Context(), s, 17)
	require.NoError(t, err)
	require.Len(t, d.Failures, FailuresShown)
	s.unread = errors.New("connection refused")
	_, err = ReadBatch(t.Context(), s, 17)
	require.ErrorIs(t, err, s.unread, "failures are part of what was asked for")

	s = &course{at: func(time.Duration) (*store.BatchInfo, error) { return &store.BatchInfo{}, nil }}
	d, err = ReadBatch(t.Context(), s, 17)
	require.NoError(t, err)
	require.NotNil(t, d.Failures, "an empty list in JSON")
	require.Zero(t, s.failures)

	_, err = ReadBatch(t.Context(), &course{at: func(time.Duration) (*store.BatchInfo, error) { return nil, store.ErrNoBatch }}, 17)
	require.EqualError(t, err, "batch 17: no such batch (or its retention is over)")
}
