package ops

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// creating is a store that reads the rows of a batch, and then commits or fails.
type creating struct {
	Batches
	most   int // rows that it reads; 0: all
	before func()
	fails  error
}

func (c *creating) CreateBatch(
	_ context.Context, _ store.BatchRequest, rows iter.Seq2[store.EnqueueRequest, error], progress func(int64),
) (task.BatchID, error) {
	n := 0
	for _, err := range rows {
		if err != nil {
			return 0, fmt.Errorf("create batch: %w", err)
		}
		if n++; n == c.most {
			break
		}
		progress(int64(n))
	}
	if c.before != nil {
		c.before()
	}
	return 17, c.fails
}

func lines(text string) iter.Seq2[store.EnqueueRequest, error] {
	return ReadRequests(strings.NewReader(text), "rows", store.EnqueueRequest{Type: "x"})
}

func TestCreateBatchCountsItsRows(t *testing.T) {
	shown := int64(0)
	id, n, err := CreateBatch(t.Context(), &creating{}, store.BatchRequest{}, lines("{}\n\n{}\n{}"), func(n int64) { shown = n })
	require.NoError(t, err)
	require.Equal(t, task.BatchID(17), id)
	require.EqualValues(t, 3, n)
	require.EqualValues(t, 3, shown)
}

func TestCreateBatchNamesTheMistakeAlone(t *testing.T) {
	_, n, err := CreateBatch(t.Context(), &creating{}, store.BatchRequest{}, lines("{}\n[]"), func(int64) {})
	require.EqualError(t, err, `rows:2:1: a line must be an object such as {"payload": {"service": 7}}`)
	require.Zero(t, n)
}

func TestCreateBatchSaysWhatAnInterruptLeft(t *testing.T) {
	away := errors.New("context canceled")
	for _, c := range []struct {
		most int
		want error
	}{{1, ErrNotCreated}, {0, ErrMaybeCreated}} {
		ctx, cancel := context.WithCancel(t.Context())
		s := &creating{most: c.most, before: cancel, fails: away}
		_, _, err := CreateBatch(ctx, s, store.BatchRequest{}, lines("{}\n{}\n"), func(int64) {})
		require.ErrorIs(t, err, c.want)
		s.fails = nil
		id, _, err := CreateBatch(ctx, s, store.BatchRequest{}, lines("{}\n{}\n"), func(int64) {})
		require.NoError(t, err, "what the store has committed is so")
		require.Equal(t, task.BatchID(17), id)
	}
	_, _, err := CreateBatch(t.Context(), &creating{fails: away}, store.BatchRequest{}, lines("{}"), func(int64) {})
	require.ErrorIs(t, err, away, "without an interrupt")
}

func TestCountRequests(t *testing.T) {
	n, err := CountRequests(lines("{}\n{}\n"))
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	_, err = CountRequests(lines("{}\n{"))
	require.ErrorContains(t, err, "rows:2:")
}
