//go:build linux

package faults_test

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults"
	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/faults/script"
	"github.com/leasehold/leasehold/test/harness"
)

// mixLasts is how long faults come in TestMix: each kind comes at least once, and at full length twice.
func mixLasts() time.Duration { return time.Duration(harness.Sized(30, 60)) * time.Second }

// TestMix: a bit of everything, always the same.
func TestMix(t *testing.T) {
	t.Parallel()
	seed := seedOr(t, 1)
	o := faults.Options{
		Seed: seed, Lasts: mixLasts(), Agents: 3, Rate: 7, Batches: 1200 * time.Millisecond, Operators: 2, Holders: 3,
		Items:     harness.Sized(4, 8), // chunks are what is left over at the end, and done one after the other
		Followers: 4, Orphans: 2,
		Faults: faults.AllFaults(),
	}
	for _, p := range faults.Schedule(o.Seed, o.Lasts, o.Agents, o.Faults) {
		t.Log(p)
	}
	h := faults.Run(t, programs(t), harness.NewPooledCluster(t), o)
	inspect(t, h)
	requireChunks(t, h)
	require.NotEmpty(t, h.TypeMoves)
}

// TestBatchRollback: hardly anything but batches that are rolled back, cancelled and retried, while agents are killed and
// lose the store.
func TestBatchRollback(t *testing.T) {
	t.Parallel()
	const seed = 6
	o := faults.Options{
		Seed: seed, Lasts: 25 * time.Second, Agents: 3, Rate: 1, Kinds: faults.WithRollback(), Batches: 400 * time.Millisecond, Operators: 3,
		Faults: faults.FaultsNamed("agent killed in a rollback", "agent killed in a rollback", "agent killed at a batch",
			"agent killed at a batch", "agent frozen", "network loses replies", "network cuts replies", "server terminates",
			"server crashes", "endpoint restarts"),
	}
	inspect(t, faults.Run(t, programs(t), harness.NewPooledCluster(t), o))
}

// TestShared: nothing but attempts that share a channel with others, a worker or a request. Workers are killed and stopped all the
// time, connections are cut, and agents killed.
func TestShared(t *testing.T) {
	t.Parallel()
	o := faults.Options{
		Seed: seedOr(t, 3), Lasts: 20 * time.Second, Agents: 3, Rate: 4, Kinds: slices.Concat(faults.WithWorkers(), faults.InBundles()),
		Operators: 1, Faults: faults.FaultsNamed("worker killed", "worker frozen", "endpoint restarts", "agent killed",
			"agent killed at a point", "agent frozen", "agent drained", "network cuts replies"),
	}
	inspect(t, faults.Run(t, programs(t), harness.NewPooledCluster(t), o))
}

// TestFollowers: hardly anything but rows whose keys are taken, while agents are killed and lose the store.
func TestFollowers(t *testing.T) {
	t.Parallel()
	o := faults.Options{
		Seed: seedOr(t, 4), Lasts: 20 * time.Second, Agents: 3, Rate: 1, Followers: 16,
		Faults: faults.FaultsNamed("agent killed", "agent killed at a point", "agent frozen", "network loses replies",
			"network cuts replies", "server terminates", "server crashes", "endpoint restarts"),
	}
	h := faults.Run(t, programs(t), harness.NewPooledCluster(t), o)
	inspect(t, h)
	answers := map[string]int{}
	for _, f := range h.Followed {
		answers[f.Answer]++
	}
	t.Log(answers)
	for _, answer := range []string{"inserted", "follows"} {
		require.Positive(t, answers[answer], answer)
	}
}

// TestLimit: nothing but tasks of a type with a limit over all agents, and of one that has such for each tenant, more than it lets run, while agents are killed and frozen and
// lose the store. All places are taken, again and again.
func TestLimit(t *testing.T) {
	t.Parallel()
	o := faults.Options{
		Seed: seedOr(t, 4), Lasts: 20 * time.Second, Agents: 3, Rate: 32, Kinds: []string{"capped", "shared"},
		Script: []script.Deed{script.Nap, script.OK},
		Faults: faults.FaultsNamed("agent killed", "agent killed at a point", "agent frozen", "agent drained", "network cuts replies",
			"network loses replies", "server terminates", "endpoint restarts"),
	}
	h := faults.Run(t, programs(t), harness.NewPooledCluster(t), o)
	inspect(t, h)
	require.Greater(t, filled(h, "capped", h.Kinds["capped"].Most, func(int64) string { return "" }), 20)
	tenants := map[int64]string{}
	for _, e := range h.Enqueued {
		tenants[e.ID] = e.Tenant
	}
	require.Greater(t, filled(h, "shared", h.Kinds["shared"].Each, func(id int64) string { return tenants[id] }), 20)
}

// filled is how often a claim took the last place of a limit, of which each group of a type's rows has its own. How long places stay full is a
// matter of the machine.
func filled(h *history.History, kind string, most int, group func(id int64) string) (n int) {
	running, of := map[int64]bool{}, map[string]int{}
	for _, m := range h.Moves {
		runs := !m.Archived && task.State(m.State).Running()
		if m.Type != kind || runs == running[m.ID] {
			continue
		}
		if running[m.ID] = runs; !runs {
			of[group(m.ID)]--
		} else if of[group(m.ID)]++; of[group(m.ID)] == most {
			n++
		}
	}
	return n
}

// TestReleaseCannotBeBroken: nothing of what breaks an agent on purpose is in one that people run.
func TestReleaseCannotBeBroken(t *testing.T) {
	program, err := os.ReadFile(harness.Binary(t))
	require.NoError(t, err)
	require.False(t, bytes.Contains(program, []byte("LEASEHOLD_FAULT_")))
}

// TestScheduleIsItsSeeds: what is printed can be done again.
func TestScheduleIsItsSeeds(t *testing.T) {
	plan := func(seed uint64) []faults.Planned { return faults.Schedule(seed, time.Minute, 3, faults.AllFaults()) }
	first, again := plan(7), plan(7)
	require.Equal(t, first, again)
	require.NotEqual(t, plan(7), plan(8))
	require.NotEmpty(t, plan(7))
}

// TestMixHasEveryFault: even the short run breaks everything that can be broken.
func TestMixHasEveryFault(t *testing.T) {
	for seed := range uint64(8) {
		came := map[string]bool{}
		for _, p := range faults.Schedule(seed, mixLasts(), 3, faults.AllFaults()) {
			came[p.Fault] = true
		}
		for _, f := range faults.AllFaults() {
			require.True(t, came[f.Name], "seed %d: %s", seed, f.Name)
		}
	}
}
