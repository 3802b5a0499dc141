//go:build linux && soak

package faults_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults"
	"github.com/leasehold/leasehold/test/harness"
)

// TestSoak makes runs from random seeds until LEASEHOLD_SOAK is over, and stops at the first breach. LEASEHOLD_SEED makes
// one run, from that seed.
func TestSoak(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("LEASEHOLD_SOAK"))
	require.NoError(t, err, "LEASEHOLD_SOAK is how long it is to last")
	built, cluster := programs(t), harness.NewPooledCluster(t)
	if text := os.Getenv("LEASEHOLD_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		soak(t, built, cluster, seed)
		return
	}
	for end := time.Now().Add(lasts); time.Now().Before(end) && !t.Failed(); {
		seed := rand.Uint64N(1_000_000)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { soak(t, built, cluster, seed) })
	}
}

func soak(t *testing.T, built faults.Programs, cluster *harness.Cluster, seed uint64) {
	o := faults.Options{
		Seed: seed, Lasts: 2 * time.Minute, Agents: 3, Rate: 10, Batches: time.Second, Operators: 2, Holders: 3, Items: 8, Followers: 5, Orphans: 2,
		Faults: faults.AllFaults(),
	}
	for _, p := range faults.Schedule(o.Seed, o.Lasts, o.Agents, o.Faults) {
		t.Log(p)
	}
	h := faults.Run(t, built, cluster, o)
	inspect(t, h)
	requireChunks(t, h)
}
