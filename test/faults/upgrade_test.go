//go:build linux

package faults_test

import (
	"fmt"
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
			Kinds: []string{"plain", "held", "completed", "accepted", "streamed", "ordered", "child", "child", "chained", "reserve", "charge",
				"capped", "former"}, // none is slow
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
				o.Orphans = 1
				// All others wait to write while an application's transaction is open, and five agents that wait for a place each ask for
				// it many times a second: with more of them a busy machine leaves some agent without the file for as long as its presence.
				o.SQLite, o.Rate, o.Open = true, 3, 20*time.Millisecond
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
	requireRevised(t, h)
	require.Equal(t, o.Orphans > 0, len(h.TypeMoves) > 0, "orphans that were moved")
}

// policiesOf returns the policies that attempts began with, by the type as which they ran.
func policiesOf(h *history.History) map[string]map[int64]bool {
	type attempt struct{ id, fence int64 }
	began, all := map[attempt]string{}, map[string]map[int64]bool{}
	for _, e := range h.Events {
		if e.What == history.Start && e.Phase == "" {
			began[attempt{e.ID, e.Fence}] = e.Kind
		}
	}
	note := func(id, fence, policy int64) {
		kind := began[attempt{id, fence}]
		if all[kind] == nil {
			all[kind] = map[int64]bool{}
		}
		all[kind][policy] = true
	}
	for _, a := range h.Tried {
		if a.Phase == "run" {
			note(a.ID, a.RanFence, a.Policy)
		}
	}
	for _, r := range h.Rows {
		if r.State == "succeeded" {
			note(r.ID, r.Fence-1, r.Policy) // its last attempt is in no other place
		}
	}
	return all
}

// requireRevised requires that each limit changed once, and never back, that rows of the former name ran under both names, and
// rows of the new name under no other, and that attempts began with the policy of the name under which they ran.
func requireRevised(t *testing.T, h *history.History) {
	t.Helper()
	limits, ran, types := map[string][]string{}, map[string]bool{}, map[int64]string{}
	for _, m := range h.LimitMoves {
		limits[m.Type] = append(limits[m.Type], fmt.Sprintf("%s %d", m.Name, m.Most))
	}
	require.Equal(t, map[string][]string{
		"capped": {"capped 5", "capped 3"}, "former": {"former 2", "renamed 4"}, "renamed": {"renamed 4"}, "shared": {"shared 0"},
		"watched": {"watched 7", "watched 6"},
	}, limits)
	for _, r := range h.Rows {
		types[r.ID] = r.Type
	}
	for _, e := range h.Events {
		if typ := types[e.ID]; e.What == history.Start && (typ == "former" || typ == "renamed") {
			ran[typ+" as "+e.Kind] = true
		}
	}
	policies := policiesOf(h)
	require.NotEmpty(t, policies["former"])
	require.NotEmpty(t, policies["renamed"])
	for policy := range policies["former"] {
		require.NotContains(t, policies["renamed"], policy)
	}
	require.Equal(t, map[string]bool{"former as former": true, "former as renamed": true, "renamed as renamed": true}, ran)
}
