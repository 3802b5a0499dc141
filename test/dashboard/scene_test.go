package dashboard_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // a driver
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // another

	"github.com/leasehold/leasehold/test/harness"
)

// scene is an agent whose tasks are in every state that a dashboard shows.
type scene struct {
	t     *testing.T
	store string // its URL
	agent *harness.Agent
	base  string // address of the dashboard
	ids   map[string]int64
}

// blocks are what the agent declares. The tasks of "long" report progress until the file "go" is there.
const blocks = `
task "invoice" {
  aliases = ["invoices"]
  redact  = ["card"]
  retry {
    limit = 0
  }
  command {
    argv = ["sh", "-c", "echo looking for invoice $LEASEHOLD_TASK_ID; test $((LEASEHOLD_TASK_ID %% 5)) != 0 || { echo no route to host 10.0.0.$LEASEHOLD_TASK_ID >&2; exit 3; }"]
  }
}
task "long" {
  timeout   = "1h"
  heartbeat = "5m"
  command {
    argv = ["sh", "-c", "n=1; while [ ! -e %[1]s/go ]; do echo '{\"progress\": {\"done\": '$n', \"total\": 1000}, \"message\": \"page '$n'\"}' >&3; n=$((n + 1)); sleep 0.3; done"]
  }
}
task "ledger" {
  retry {
    limit = 0
  }
  command {
    argv = ["sh", "-c", "exit 9"]
  }
}
task "paused" {
  command {
    argv = ["true"]
  }
}
task "event" {
  retry {
    limit = 0
  }
  command {
    argv = ["sh", "-c", "test $((LEASEHOLD_TASK_ID %% 4)) != 0"]
  }
}
task "mail" {
  timeout = "1h"
  limit   = 1
  tenant {
    limit = 1
  }
  command {
    argv = ["sh", "-c", "while [ ! -e %[1]s/go ]; do sleep 0.3; done"]
  }
}
task "sync" {
  timeout = "1h"
  rate    = "30/m"
  burst   = 5
  command {
    argv = ["sh", "-c", "while [ ! -e %[1]s/go ]; do sleep 0.3; done"]
  }
}
chunks "events" {
  task = "event"
  source {
    table = "event"
    key   = "id"
  }
  size = 100
}
schedule "nightly" {
  task     = "invoice"
  cron     = "15 2 * * *"
  timezone = "Europe/Berlin"
  payload  = { card = "4111", kind = "nightly" }
}
schedule "yearly" {
  task = "paused"
  cron = "0 0 1 1 *"
}
`

// play starts an agent on a store, and has it come so far.
func play(t *testing.T, store, agentBlock string) *scene {
	return playOn(t, store, "127.0.0.1", agentBlock)
}

// playOpen does so with a listener that is open to other hosts, too.
func playOpen(t *testing.T) *scene {
	return playOn(t, "sqlite:"+filepath.Join(t.TempDir(), "leasehold.db"), "0.0.0.0", "  token = \"a-token-of-some-length\"\n")
}

func playOn(t *testing.T, store, host, agentBlock string) *scene {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { _ = os.WriteFile(filepath.Join(dir, "go"), nil, 0o600) }) // it only ends the tasks earlier
	port := harness.FreePort(t)
	s := &scene{t: t, store: store, base: fmt.Sprintf("http://127.0.0.1:%d", port), ids: map[string]int64{}}
	s.agent = harness.StartAgent(t, harness.AgentOptions{
		Name: "billing-1", Store: store, Listen: fmt.Sprintf("%s:%d", host, port), Agent: "  workers = 6\n" + agentBlock,
		Config: fmt.Sprintf(blocks, dir),
	})
	s.fill()
	return s
}

// leasehold runs a command on the store.
func (s *scene) leasehold(args ...string) string {
	s.t.Helper()
	return harness.MustRun(s.t, []string{"LEASEHOLD_STORE=" + s.store}, args...)
}

// enqueue inserts a task, and keeps its id under a name.
func (s *scene) enqueue(name string, args ...string) {
	s.t.Helper()
	var made struct {
		ID int64 `json:"id"`
	}
	require.NoError(s.t, json.Unmarshal([]byte(s.leasehold(append([]string{"enqueue", "-o", "json"}, args...)...)), &made))
	s.ids[name] = made.ID
}

// fill makes what there is to see.
func (s *scene) fill() {
	s.makeEvents()
	s.leasehold("pause", "paused", "--reason", "the bank is down", "--by", "alice")
	harness.Until(s.t, time.Minute, "the agent is to know of the pause", func() bool {
		return strings.Contains(string(s.read("/metrics")), `leasehold_type_paused{type="paused"} 1`)
	})
	var rows strings.Builder
	for i := range 12 {
		fmt.Fprintf(&rows, `{"type": "invoice", "payload": {"invoice": %d, "card": "4111"}, "labels": {"customer": "acme"}}`+"\n", i)
	}
	file := filepath.Join(s.t.TempDir(), "rows.ndjson")
	require.NoError(s.t, os.WriteFile(file, []byte(rows.String()), 0o600))
	s.leasehold("batch", "create", "--from", file, "--name", "November <b>invoices</b>")
	s.enqueue("long", "long")
	s.enqueue("ledger", "ledger", "--sequence", "account-7")
	s.enqueue("behind", "ledger", "--sequence", "account-7")
	s.enqueue("orphan", "nobody", "--payload", `{"note": "<script>alert(1)</script>"}`)
	s.enqueue("later", "invoice", "--in", "2h", "--payload", `{"card": "4111"}`)
	s.enqueue("paused", "paused")
	harness.Until(s.t, time.Minute, "both batches are to end, that of the chunks too", func() bool {
		return strings.Count(s.leasehold("batch", "list", "-o", "jsonl"), `"state":"partially_failed"`) == 2
	})
	s.until("ledger", "failed")
	s.until("long", "running")
	s.wait()
}

// wait has tasks wait for limits, tenants and locks.
func (s *scene) wait() {
	s.enqueue("mail", "mail", "--tenant", "acme")
	s.enqueue("mail of acme", "mail", "--tenant", "acme")
	s.enqueue("mail of globex", "mail", "--tenant", "globex <b>Inc</b>")
	s.until("mail", "running")
	s.enqueue("sync", "sync", "--lock", "mailbox-7")
	s.until("sync", "running")
	s.enqueue("sync behind", "sync", "--lock", "mailbox-7")
	harness.Until(s.t, time.Minute, "a task is to wait for its lock", func() bool {
		var flow struct{ Locks []struct{ Waiting int } }
		s.get("/api/v1/flow", &flow)
		return len(flow.Locks) == 1 && flow.Locks[0].Waiting == 1
	})
}

// makeEvents makes the table that is cut into chunks.
func (s *scene) makeEvents() {
	s.t.Helper()
	driver, at := "pgx", s.store
	if file, ok := strings.CutPrefix(s.store, "sqlite:"); ok {
		driver, at = "sqlite", "file:"+file+"?_pragma=busy_timeout(20000)"
	}
	db, err := sql.Open(driver, at)
	require.NoError(s.t, err)
	defer func() { require.NoError(s.t, db.Close()) }()
	for _, statement := range []string{
		"CREATE TABLE event (id bigint NOT NULL PRIMARY KEY)",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO event SELECT i FROM n",
	} {
		_, err := db.ExecContext(s.t.Context(), statement)
		require.NoError(s.t, err)
	}
}

// until waits until a task is in a state.
func (s *scene) until(name, state string) {
	s.t.Helper()
	harness.Until(s.t, time.Minute, name+" is to be "+state, func() bool { return s.state(name) == state })
}

// state is the state of a task.
func (s *scene) state(name string) string {
	s.t.Helper()
	var got struct {
		State string `json:"state"`
	}
	s.get(fmt.Sprintf("/api/v1/tasks/%d", s.ids[name]), &got)
	return got.State
}

// get asks the API.
func (s *scene) get(path string, into any) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal(s.read(path), into))
}

// read returns what the agent answers.
func (s *scene) read(path string) []byte {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.base+path, http.NoBody)
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer a-token-of-some-length")
	resp, err := (&http.Client{Timeout: seenWithin}).Do(r)
	require.NoError(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(s.t, http.StatusOK, resp.StatusCode, path)
	all, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return all
}

// task is the path of a task's page.
func (s *scene) task(name string) string { return fmt.Sprintf("/tasks/%d", s.ids[name]) }

// onBoth runs a test on each store.
func onBoth(t *testing.T, test func(t *testing.T, store string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "leasehold.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, harness.Database(t)) })
}
