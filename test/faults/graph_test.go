//go:build linux

package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults"
	"github.com/leasehold/leasehold/test/harness"
)

// TestGraph: rows that wait for others at random, some of which fail. Operators cancel and retry them, and agents are killed and frozen and, on
// PostgreSQL, lose the store.
func TestGraph(t *testing.T) {
	t.Parallel()
	o := faults.Options{
		Seed: seedOr(t, 7), Lasts: time.Duration(harness.Sized(6, 60)) * time.Second, Agents: 3, Workers: 16, Graph: harness.Sized(250, 10_000),
	}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		o := o
		o.Faults = faults.FaultsNamed("agent killed", "agent killed at a point", "agent frozen", "network cuts replies",
			"network loses some replies", "server terminates", "server crashes", "endpoint restarts")
		graph(t, o)
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		o := o
		o.SQLite, o.Faults = true, onSQLite()
		graph(t, o)
	})
}

// onSQLite is what can be broken where there is neither a server nor a network.
func onSQLite() []faults.Fault {
	return faults.FaultsNamed("agent killed", "agent killed at a point", "agent frozen", "agent drained", "endpoint restarts")
}

// graph makes a run and checks it. It requires that what the run is about has happened.
func graph(t *testing.T, o faults.Options) {
	t.Helper()
	p := programs(t)
	var cluster *harness.Cluster
	if !o.SQLite {
		cluster = harness.NewPooledCluster(t)
	}
	h := faults.Run(t, p, cluster, o)
	inspect(t, h)
	ended, started := map[string]int{}, 0
	for _, r := range h.Rows {
		if r.Type == "node" {
			ended[r.State]++
		}
		if r.Type == "node" && r.EverStarted {
			started++
		}
	}
	t.Log(ended, started)
	require.GreaterOrEqual(t, ended["succeeded"]+ended["failed"]+ended["cancelled"], o.Graph)
	require.Greater(t, started, o.Graph/4)
	require.Positive(t, ended["cancelled"])
}
