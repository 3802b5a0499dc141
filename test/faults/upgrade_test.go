//go:build linux

package faults_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver

	"github.com/leasehold/leasehold/test/faults"
	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/harness"
)

// TestRollingUpgrade: agents of two versions beside each other, under load, on a schema that the newer one has migrated.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	programs, err := faults.BuildNext(programsDir(t), harness.Binary(t))
	require.NoError(t, err)
	for seed := range uint64(harness.Sized(1, 4)) {
		o := faults.Options{
			Seed: seed + 1, Rate: 5, Batches: 2 * time.Second, Operators: 2, Holders: 3, Items: 4, Followers: 4,
			Kinds: []string{"plain", "held", "completed", "accepted", "streamed", "ordered", "child", "child", "chained", "reserve", "charge"}, // none is slow
			// The default. A migration locks the hot table, on a busy machine for a second or two, and agents that could not write
			// their presence for most of its length would stop their work.
			Presence: 15 * time.Second,
		}
		t.Run(strconv.FormatUint(o.Seed, 10), func(t *testing.T) {
			t.Run("postgres", func(t *testing.T) {
				t.Parallel()
				o := o
				o.Kinds = slices.Concat(o.Kinds, []string{"mount", "build"})
				o.Open = 300 * time.Millisecond // the migration waits for that, and all others for the migration
				upgrade(t, programs, o)
			})
			t.Run("sqlite", func(t *testing.T) {
				t.Parallel()
				o := o
				o.SQLite, o.Open = true, 50*time.Millisecond // all others wait to write
				upgrade(t, programs, o)
			})
		})
	}
}

// upgrade makes a run and checks it. It requires that what the run is about has happened.
func upgrade(t *testing.T, programs faults.Programs, o faults.Options) {
	t.Helper()
	h := faults.Upgrade(t, programs, o)
	inspect(t, h)
	requireChunks(t, h)
	for _, state := range []string{"succeeded", "rolled_back"} {
		require.True(t, slices.ContainsFunc(h.Rows, func(r history.Row) bool { return r.State == state }), state)
	}
	require.NotEmpty(t, h.Moves)
	require.NotEmpty(t, h.Of.Ended)
}
