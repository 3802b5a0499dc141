package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestWorkers has the worker of each language run some tasks, on both stores.
func TestWorkers(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		greet(t, onPostgres(t))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		greet(t, onSQLite(t))
	})
}

func greet(t *testing.T, s stores) {
	dir := filepath.Join(harness.Root(), "examples/workers")
	st := &stage{t: t, s: s}
	harness.StartAgent(t, harness.AgentOptions{
		Name: "agent", Store: s.agent, Paths: []string{filepath.Join(dir, "leasehold.hcl")},
		Env: []string{"LEASEHOLD_STORE=" + s.agent, interpreters(), "GO_WORKER=" + buildWorker(t, dir)},
	})
	const each = 4
	ids := make(map[string][]int64)
	for range each {
		for _, language := range []string{"go", "node", "php", "python", "ruby", "shell"} {
			if language == "go" || usable(language) {
				ids[language] = append(ids[language], st.enqueue("hello."+language, `{"name": "Ada \u2028 \"ü\""}`))
			}
		}
	}
	for language, tasks := range ids {
		for _, id := range tasks {
			done := st.wait(id)
			require.Equal(t, "succeeded", done.State, language)
			require.Equal(t, 1, done.Attempt, language)
			require.JSONEq(t, `{"greeting": "hello"}`, string(done.Result), language)
			out := harness.MustRun(t, nil, "task", "show", fmt.Sprint(id), "--store", s.agent)
			require.Contains(t, out, fmt.Sprintf("hello from task %d\n", id), language)
		}
	}
}

// buildWorker builds the worker in Go, which is no file of this module's.
func buildWorker(t *testing.T, dir string) (path string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(dir, "worker.go.txt"))
	require.NoError(t, err)
	to := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(to, "worker.go"), source, 0o600))
	build := exec.Command("go", "build", "-o", "worker", "worker.go")
	build.Dir = to
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(to, "worker")
}
