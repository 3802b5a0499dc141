package sqlite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

// A listener that looks once an hour learns at once of what others commit.
func TestWritesOfOthersAreNoticed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	l, err := newListener(t.Context(), h.read, h.sql)
	require.NoError(t, err)
	l.every = time.Hour
	woken := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.listen(ctx, l, func(store.News) { woken <- struct{}{} }) }()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, l.close())
	}()
	await(t, woken) // at the start
	for range 20 {
		require.NoError(t, h.exec(t, "INSERT INTO task (type) VALUES ('x')"))
		await(t, woken)
	}
}

// What the store itself writes is no news of others.
func TestOwnWritesAreNotNoticed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	seen := make(chan struct{}, 100)
	w, err := watchLog(h.path, func() bool {
		seen <- struct{}{}
		return true
	})
	require.NoError(t, err)
	require.NoError(t, h.exec(t, "INSERT INTO task (type) VALUES ('x')"))
	await(t, seen)
	require.NoError(t, w.close())
	require.Empty(t, w.wrote)
}
