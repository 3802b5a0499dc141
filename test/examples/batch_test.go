package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// batchEndpoints are the programs in examples/batch: the file, how it is started, and the programs that this needs.
func batchEndpoints() map[string][]string {
	return map[string][]string{
		"batch.py":      {"python3", "batch.py"},
		"batch.js":      {"node", "batch.js"},
		"batch.php":     {"php", "-S", "127.0.0.1:{port}", "batch.php"},
		"batch.rb":      {"ruby", "batch.rb"},
		"batch.go":      {"go", "run", "batch.go"},
		"cgi-bin/greet": {"busybox", "httpd", "-f", "-p", "127.0.0.1:{port}", "-h", "."},
	}
}

// TestBatchEndpoints has each endpoint greet many, in few requests, and reject one.
func TestBatchEndpoints(t *testing.T) {
	t.Parallel()
	for file, argv := range batchEndpoints() {
		if _, err := exec.LookPath(argv[0]); err != nil {
			t.Logf("left out: %s, because %v", file, err)
			continue
		}
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			greets(t, argv)
		})
	}
}

func greets(t *testing.T, argv []string) {
	const tasks, bad = 250, 100
	s := onSQLite(t)
	port := harness.FreePort(t)
	dir := filepath.Join(harness.Root(), "examples/batch")
	env := []string{
		fmt.Sprintf("PORT=%d", port), fmt.Sprintf("BATCH_URL=http://127.0.0.1:%d/cgi-bin/greet", port), "LEASEHOLD_STORE=" + s.agent,
		"DATABASE_URL=" + s.agent,
	}
	args := make([]string, len(argv))
	for i, arg := range argv {
		args[i] = strings.ReplaceAll(arg, "{port}", fmt.Sprint(port))
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	harness.StartProcess(t, argv[0], cmd)
	untilListens(t, port)
	agent := harness.StartAgent(t, harness.AgentOptions{
		Name: "agent", Store: s.agent, Paths: []string{filepath.Join(dir, "leasehold.hcl")}, Env: env,
	})
	st := &stage{t: t, s: s, db: s.open(t)}
	values := make([]string, tasks)
	for i := range values {
		values[i] = fmt.Sprintf(`('greet', '{"name": "Ada %d"}')`, i+1)
	}
	values[bad-1] = `('greet', '{}')`
	_, err := st.db.ExecContext(t.Context(), "INSERT INTO task (type, payload) VALUES "+strings.Join(values, ", "))
	require.NoError(t, err)
	for _, id := range []int64{1, bad, tasks} {
		done := st.wait(id)
		require.Equal(t, 1, done.Attempt)
		if id == bad {
			require.Equal(t, "rejected", done.Outcome)
			continue
		}
		require.Equal(t, "succeeded", done.State, done.Error)
		require.JSONEq(t, fmt.Sprintf(`{"greeting": "Hello, Ada %d!"}`, id), string(done.Result))
	}
	harness.Until(t, time.Minute, "all have been greeted", func() bool {
		return st.number("SELECT count(*) FROM tasks WHERE state = 'succeeded' AND attempt = 1") == tasks-1
	})
	agent.Drain(t)
}

// TestBatchEndpointsAreShort keeps the examples what they are for: something to read at a glance.
func TestBatchEndpointsAreShort(t *testing.T) {
	for file := range batchEndpoints() {
		text, err := os.ReadFile(filepath.Join(harness.Root(), "examples/batch", file))
		require.NoError(t, err)
		require.LessOrEqual(t, strings.Count(string(text), "\n"), 40, file)
	}
}
