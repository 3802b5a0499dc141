package poll_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

func TestAFloodOfSingleRowsIsClaimedInHandfuls(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store)
		after(time.Second)
		idles := r.wire.count("idle")
		claims := r.wire.count("claim")
		for range 2000 { // a producer that commits single rows
			r.insert(1)
			after(time.Millisecond)
		}
		require.LessOrEqual(t, r.wire.count("claim")-claims, 500, "not a claim for each")
		require.LessOrEqual(t, r.wire.count("idle")-idles, 2, "one write stops the producers' notifications")
		after(10 * time.Millisecond)
		require.Len(t, r.deeds.started(), 2000, "none waits for longer than a look")
		after(time.Second)
		require.True(t, store.Idles(1), "it is idle again")
		id := r.insert(1)[0]
		after(time.Millisecond)
		require.Equal(t, task.StateSucceeded, r.get(id).State, "and is notified")
		r.drain()
	})
}

func TestAFewRowsAreNoFlood(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store)
		after(time.Second)
		idles := r.wire.count("idle")
		for range 200 {
			id := r.insert(1)[0]
			after(10 * time.Millisecond)
			require.Equal(t, task.StateSucceeded, r.get(id).State)
		}
		require.Equal(t, idles, r.wire.count("idle"))
		r.drain()
	})
}
