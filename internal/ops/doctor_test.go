package ops

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// The bounds of checks, and names with quotes. The stores' own tests make each finding real.
func TestExamineBounds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		d    store.Diagnosis
		what string // "": nothing is found
	}{
		"disk_space":         {store.Diagnosis{File: &store.FileHealth{Free: 3 << 30, Size: 100 << 30}}, "3.0 GiB left of 100.0 GiB"},
		"much left":          {store.Diagnosis{File: &store.FileHealth{Free: 11 << 30, Size: 1000 << 30}}, ""},
		"half":               {store.Diagnosis{File: &store.FileHealth{Free: 1 << 20, Size: 2 << 20}}, ""},
		"not known":          {store.Diagnosis{File: &store.FileHealth{}}, ""},
		"server_version":     {store.Diagnosis{Postgres: &store.PostgresHealth{Version: 130_011}}, "PostgreSQL 13"},
		"replication_slot":   {of(store.PostgresHealth{Slot: &store.ReplicationSlot{Name: "a'b"}}), "no standby uses replication slot a'b"},
		"busy slot":          {of(store.PostgresHealth{Slot: &store.ReplicationSlot{Name: "a", Active: true, Transactions: 10}}), ""},
		"oldest_transaction": {of(store.PostgresHealth{Oldest: &store.Transaction{Prepared: "a'b", User: "u", Since: now.Add(-time.Hour)}}), "the prepared transaction a'b of u is open since"},
		"young transaction":  {of(store.PostgresHealth{Oldest: &store.Transaction{PID: 1, Since: now.Add(-time.Minute)}}), ""},
		"autovacuum":         {of(store.PostgresHealth{AutovacuumOff: "server"}), "autovacuum is off on the server"},
		"connections":        {of(store.PostgresHealth{Server: store.Connections{Used: 90, Most: 97}}), "90 of the 97 connections"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.d.Now = now
			if p := c.d.Postgres; p != nil {
				for _, l := range []*store.Connections{&p.Server, &p.Database, &p.OfRole} {
					if l.Most == 0 {
						l.Most = -1
					}
				}
			}
			c.d.Agents = []store.AgentInfo{{Name: "a", State: store.AgentWorking, Workers: 1}}
			found := Examine(&c.d, DoctorOptions{}, now, now)
			if c.what == "" {
				require.True(t, found.Healthy)
				require.Empty(t, found.Findings)
				return
			}
			require.False(t, found.Healthy)
			require.Len(t, found.Findings, 1)
			require.Equal(t, name, found.Findings[0].Name)
			require.Contains(t, found.Findings[0].What, c.what)
			require.NotContains(t, found.Findings[0].Remedy, "'a'b'")
		})
	}
}

func TestUnusedSlots(t *testing.T) {
	t.Parallel()
	now := time.Now()
	d := of(store.PostgresHealth{
		Slot:   &store.ReplicationSlot{Name: "rows"},
		Unused: []store.UnusedSlot{{Name: "a'b", Bytes: 3 << 30}, {Name: "rows", Bytes: 2 << 30}, {Name: "gone", Lost: true}},
	})
	d.Now = now
	var found []Finding
	for _, f := range Examine(&d, DoctorOptions{}, now, now).Findings {
		if f.Name == "replication_slot" {
			found = append(found, f)
		}
	}
	require.Len(t, found, 3, "one slot is one finding")
	for i, want := range []string{
		"no standby uses replication slot rows", "nothing uses replication slot a'b, which keeps 3.0 GiB of",
		"replication slot gone has lost the write-ahead log",
	} {
		require.Contains(t, found[i].What, want)
		require.Equal(t, map[bool]Severity{true: Notice, false: Problem}[i == 2], found[i].Severity)
	}
	require.Contains(t, found[1].Remedy, "pg_drop_replication_slot('a''b')")
}

// of is a diagnosis of a server that is well but for what is given.
func of(p store.PostgresHealth) store.Diagnosis {
	if p.Version == 0 {
		p.Version = 170_000
	}
	return store.Diagnosis{Postgres: &p}
}

func TestUnusableStores(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"store":  errors.New("connection refused"),
		"schema": store.Schema{}.Admits(1),
	} {
		c := Unusable(err)
		require.False(t, c.Healthy)
		require.Equal(t, name, c.Findings[0].Name)
		require.Contains(t, c.Checked, name)
	}
	require.Equal(t, "use a newer leasehold, or `leasehold migrate down` with the newer one",
		Unusable(store.Schema{Version: 9, Oldest: 9}.Admits(1)).Findings[0].Remedy)
	require.Equal(t, "the role lacks a privilege", Unusable(&store.AccessError{Text: "the role lacks a privilege"}).Findings[0].What)
}

// Names are promises, and each is that of one check.
func TestNamesOfChecks(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{"store": true, "schema": true, "unseen": true}
	for _, list := range [][]check{postgresChecks(), fileChecks(), agentChecks(), workChecks(), roleChecks()} {
		for _, c := range list {
			require.False(t, seen[c.name], c.name)
			require.Regexp(t, `^[a-z]+(_[a-z]+)*$`, c.name)
			require.LessOrEqual(t, len(c.name), len("declaration_differs"), "the table has 80 columns")
			seen[c.name] = true
		}
	}
}

// TestObserversHaveTheirOwnConfiguration, as they have no workers; agents that claim the same types should not.
func TestObserversHaveTheirOwnConfiguration(t *testing.T) {
	t.Parallel()
	now := time.Now()
	agent := func(name, config string, workers int) store.AgentInfo {
		return store.AgentInfo{
			Name: name, State: store.AgentWorking, Workers: workers, Config: config, Types: []string{"a"}, StartedAt: now.Add(-time.Hour), SeenAt: now,
		}
	}
	differ := func(agents ...store.AgentInfo) (found []Finding) {
		x := examination{Diagnosis: &store.Diagnosis{Now: now, Agents: agents}}
		return x.configurations()
	}
	require.Empty(t, differ(agent("x", "1", 8), agent("y", "1", 8), agent("obs", "2", 0)))
	found := differ(agent("x", "1", 8), agent("y", "3", 8), agent("obs", "2", 0))
	require.Len(t, found, 1)
	require.Equal(t, Problem, found[0].Severity)
	require.Contains(t, found[0].What, "1 (x), 3 (y)")
	require.NotContains(t, found[0].What, "obs")
}

// TestTwice: an agent that was killed and started again is one agent, from the start of the second session on.
func TestTwice(t *testing.T) {
	t.Parallel()
	now := time.Now()
	agent := func(session task.Session, started, seen time.Duration) store.AgentInfo {
		return store.AgentInfo{Session: session, Name: "x", State: store.AgentWorking, Workers: 1, StartedAt: now.Add(-started), SeenAt: now.Add(-seen)}
	}
	for name, c := range map[string]struct {
		agents []store.AgentInfo
		twice  string
	}{
		"both renew":               {[]store.AgentInfo{agent(2, time.Minute, time.Second), agent(1, time.Hour, time.Second)}, "2 agents that are running have the name x"},
		"killed and restarted":     {[]store.AgentInfo{agent(2, time.Second, time.Second), agent(1, time.Hour, 2*time.Second)}, ""},
		"restarted and killed":     {[]store.AgentInfo{agent(2, time.Minute, 6*time.Second), agent(1, time.Hour, time.Second)}, ""},
		"restarted twice":          {[]store.AgentInfo{agent(3, time.Second, 0), agent(2, 3*time.Second, 2*time.Second), agent(1, time.Hour, 4*time.Second)}, ""},
		"two, and one restarted":   {[]store.AgentInfo{agent(3, time.Second, 0), agent(2, time.Minute, 2*time.Second), agent(1, time.Hour, 0)}, "2 agents"},
		"they started at one time": {[]store.AgentInfo{agent(2, time.Second, time.Second), agent(1, time.Second, time.Second)}, "2 agents"},
	} {
		x := examination{Diagnosis: &store.Diagnosis{Now: now, Agents: c.agents}}
		found := x.agentsTwice()
		if c.twice == "" {
			require.Empty(t, found, name)
			continue
		}
		require.Len(t, found, 1, name)
		require.Contains(t, found[0].What, c.twice, name)
	}
}
