package e2e_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
	"github.com/leasehold/leasehold/test/pressure"
)

// How much an agent has in hand when it is killed or frozen, and by when others have it: presence and 2 s, on a machine
// where nothing waits for a processor meanwhile.
const (
	presence  = 5 * time.Second
	elsewhere = presence + 2*time.Second
)

// children is how many processes the agent runs then. Twenty start within the bound on a slow machine, too.
func children() int { return harness.Sized(20, 50) }

// failStopScript runs for ever at its first attempt. At the next it looks whether anything of the first one lives, and
// is done. What it sees is left in files.
const failStopScript = `#!/bin/sh
cd "$(dirname "$0")" || exit 65
me=$LEASEHOLD_TASK_ID
echo "$me $LEASEHOLD_ATTEMPT $LEASEHOLD_FENCE" >> runs
if [ -e "$me.pid" ]; then
  state=$(sed 's/.*) //; s/ .*//' "/proc/$(cat "$me.pid")/stat" 2>/dev/null)
  case $state in
    '' | Z | X) ;;
    *) echo "$me is $state" >> twice ;;
  esac
  : > "$me.again"
  exit 0
fi
echo $$ > "$me.tmp"
mv "$me.tmp" "$me.pid"
exec sleep 1000
`

// saysStill is what an agent logs that was frozen.
const saysStill = `"msg":"the process stood still: `

// stage is a store, and where the script leaves what it sees.
type stage struct {
	t     *testing.T
	store string
	dir   string
	at    map[string]string // where its agents listen
}

func newStage(t *testing.T, store string) *stage {
	t.Helper()
	s := &stage{t: t, store: store, dir: t.TempDir(), at: map[string]string{}}
	require.NoError(t, os.WriteFile(s.script(), []byte(failStopScript), 0o600))
	return s
}

func (s *stage) script() string { return filepath.Join(s.dir, "work.sh") }

func (s *stage) agent(name string) *harness.Agent {
	s.at[name] = fmt.Sprintf("127.0.0.1:%d", harness.FreePort(s.t))
	return harness.StartAgent(s.t, harness.AgentOptions{
		Name: name, Store: s.store, Listen: s.at[name], Says: []string{saysStill}, Agent: fmt.Sprintf("  workers = %d\n  presence = %q\n  poll = \"200ms\"", children(), presence),
		Config: fmt.Sprintf("task \"work\" {\n  timeout = \"5m\"\n  retry {\n    min = \"10ms\"\n    max = \"100ms\"\n  }\n"+
			"  command {\n    argv = [\"sh\", %q]\n  }\n}", s.script()),
	})
}

// begin has an agent run all, and gives the processes' ids.
func (s *stage) begin(name string) (a *harness.Agent, pids []int) {
	s.t.Helper()
	a = s.agent(name)
	for range children() {
		harness.MustRun(s.t, nil, "enqueue", "work", "--store", s.store)
	}
	harness.Until(s.t, workWithin, "all run", func() bool { return len(s.files("*.pid")) == children() })
	for _, file := range s.files("*.pid") {
		text, err := os.ReadFile(file)
		require.NoError(s.t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(s.t, err)
		pids = append(pids, pid)
	}
	return a, pids
}

func (s *stage) files(pattern string) []string {
	files, err := filepath.Glob(filepath.Join(s.dir, pattern))
	require.NoError(s.t, err)
	return files
}

// living counts the processes that are there and no zombies.
func living(pids []int) (n int) {
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, rest, ok := strings.Cut(string(stat), ") "); err == nil && ok && rest[0] != 'Z' && rest[0] != 'X' {
			n++
		}
	}
	return n
}

// freeze stops an agent where it does not keep its store from others. One that is frozen within a write to an SQLite file
// keeps all others from writing until it resumes or dies, as any program does; so it is stopped while this holds the lock.
func freeze(t *testing.T, a *harness.Agent, store string) {
	t.Helper()
	file, ok := strings.CutPrefix(store, "sqlite:")
	if !ok {
		a.Signal(t, syscall.SIGSTOP)
		return
	}
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(60000)")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	a.Signal(t, syscall.SIGSTOP)
	harness.Until(t, workWithin, "the agent is frozen", func() bool { return stopped(t, a.PID()) })
	require.NoError(t, tx.Rollback())
}

// stopped reports whether every thread of a process has stopped.
func stopped(t *testing.T, pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	require.NoError(t, err)
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if _, rest, ok := strings.Cut(string(stat), ") "); err != nil || !ok || rest[0] != 'T' {
			return false
		}
	}
	return len(threads) > 0
}

// ran waits until all have run again, and checks that each did so once, after its first attempt was dead and reaped, and
// that this is how it stands in the store.
func (s *stage) ran(since pressure.Watch) {
	s.t.Helper()
	harness.Until(s.t, workWithin, "all have run again", func() bool { return len(s.files("*.again")) == children() })
	took := since.Took()
	s.t.Logf("all had run elsewhere after %s", took.Round(time.Millisecond))
	require.Less(s.t, took, elsewhere)
	require.NoFileExists(s.t, filepath.Join(s.dir, "twice"))
}

// stored checks how the tasks stand in the end.
func (s *stage) stored() {
	s.t.Helper()
	harness.Until(s.t, workWithin, "all have succeeded", func() bool {
		return strings.Count(harness.MustRun(s.t, nil, "task", "list", "--state", "succeeded", "--limit", "1000", "-o", "jsonl", "--store", s.store), "\n") == children()
	})
	for id := 1; id <= children(); id++ {
		var shown struct {
			History []struct{ Outcome string }
		}
		text := harness.MustRun(s.t, nil, "task", "show", strconv.Itoa(id), "-o", "json", "--store", s.store)
		require.NoError(s.t, json.Unmarshal([]byte(text), &shown), text)
		var outcomes []string
		for _, a := range shown.History {
			outcomes = append(outcomes, a.Outcome)
		}
		require.Equal(s.t, []string{"lost", "succeeded"}, outcomes, text)
	}
	runs, err := os.ReadFile(filepath.Join(s.dir, "runs"))
	require.NoError(s.t, err)
	require.Equal(s.t, 2*children(), strings.Count(string(runs), "\n"), "each ran twice")
}

// counted is the sum of an agent's metrics whose lines begin so.
func counted(t *testing.T, listen, begin string) (sum int) {
	t.Helper()
	for line := range strings.Lines(metricsOf(t, listen)) {
		if strings.HasPrefix(line, begin) {
			n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			require.NoError(t, err, line)
			sum += int(n)
		}
	}
	return sum
}

// failStopStores are where this is tested.
func failStopStores(t *testing.T) map[string]string {
	return map[string]string{
		"postgres": harness.Pooled(t, harness.Database(t)),
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "leasehold.db"),
	}
}

// TestAgentIsKilled: a second after the agent's death none of its children lives, and others have run their tasks within
// presence and 2 s.
func TestAgentIsKilled(t *testing.T) {
	for name, store := range failStopStores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the one beside the other: most of it is waiting for presence to end
			s := newStage(t, store)
			a, pids := s.begin("killed")
			other := s.agent("other")
			began := pressure.Start()
			a.Kill(t)
			harness.Until(t, workWithin, "its children are dead", func() bool { return living(pids) == 0 })
			took := began.Took()
			t.Logf("its children were dead after %s", took.Round(time.Millisecond))
			require.Less(t, took, time.Second)
			s.ran(began)
			s.stored()
			other.Drain(t)
		})
	}
}

// TestAgentIsFrozen: when the presence of a frozen agent is over none of its children lives, others have run their tasks
// within 2 s more, and when it wakes it changes nothing: it says that it stood still, counts the leases that it has lost, and no attempt, since
// the other has counted each.
func TestAgentIsFrozen(t *testing.T) {
	for name, store := range failStopStores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the one beside the other: most of it is waiting for presence to end
			s := newStage(t, store)
			a, pids := s.begin("frozen")
			other := s.agent("other")
			began := pressure.Start()
			freeze(t, a, store)
			harness.Until(t, workWithin, "its children are dead", func() bool { return living(pids) == 0 })
			took := began.Took()
			t.Logf("its children were dead after %s", took.Round(time.Millisecond))
			require.Less(t, took, presence)
			s.ran(began)
			a.Signal(t, syscall.SIGCONT)
			a.Await(t, saysStill, workWithin)
			harness.Until(t, workWithin, "it has lost its leases", func() bool {
				return counted(t, s.at["frozen"], "leasehold_leases_lost_total") == children()
			})
			require.Zero(t, counted(t, s.at["frozen"], "leasehold_attempts_total"))
			require.NotContains(t, a.Tail(), "out of reach")
			a.Drain(t)
			s.stored()
			require.Equal(t, children(), counted(t, s.at["other"], `leasehold_attempts_total{outcome="lost"`))
			require.Equal(t, 2*children(), counted(t, s.at["other"], "leasehold_attempts_total"))
			other.Drain(t)
		})
	}
}
