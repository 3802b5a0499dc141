package main

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqlite"
	"github.com/leasehold/leasehold/internal/task"
)

// laterStep migrates a SQLite store, and records a further step, as a later version does.
func laterStep(t *testing.T, oldest int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "newer.db")
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Create: true})
	require.NoError(t, err)
	_, err = s.Migrator().Up(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "INSERT INTO schema_version (version, name, oldest) VALUES (99, 'later', ?)", oldest)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return path
}

// status runs migrate status.
func status(t *testing.T, path, format string) (printed string, failed error) {
	t.Helper()
	t.Setenv("LEASEHOLD_CONFIG", "")
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer out.Close()
	a := &app{cli: &cli{Store: "sqlite:" + path, Output: format}, out: out, err: out}
	failed = migrateStatusCmd{}.Run(a)
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	return string(text), failed
}

// TestMigrateStatusOfANewerSchema lists what the binary knows. It fails where the schema does not admit the binary, and else says
// that there is more.
func TestMigrateStatusOfANewerSchema(t *testing.T) {
	printed, err := status(t, laterStep(t, 99), "jsonl")
	var newer *store.SchemaError
	require.ErrorAs(t, err, &newer)
	require.Equal(t, 99, newer.Have)
	require.Contains(t, printed, `"version":1`)
	require.Contains(t, printed, `"version":99,"oldest":99,"binary":1,`)

	admits := laterStep(t, 1)
	printed, err = status(t, admits, "table")
	require.NoError(t, err)
	require.Contains(t, printed, "\nschema version 99; binaries that know version 1 or later may work on it (this one knows 1)\n")
	printed, err = status(t, admits, "jsonl")
	require.NoError(t, err)
	require.Contains(t, printed, `"version":99,"oldest":1,"binary":1,`)
}

// TestRunningAgentOnANewerSchema: an agent stays ready while another version migrates its store, as long as the schema admits
// it. It is not ready on one that does not, says why, and finishes what it runs.
func TestRunningAgentOnANewerSchema(t *testing.T) {
	finish := filepath.Join(t.TempDir(), "finish")
	r := startAgent(t, `task "slow" {
  command {
    argv = ["sh", "-c", "until test -e `+finish+`; do sleep 0.02; done"]
  }
}`)
	r.eventually(t, "/-/ready", "ok")
	id, _, err := ops.Enqueue(t.Context(), r.agent.store, store.EnqueueRequest{Type: "slow"})
	require.NoError(t, err)
	r.eventually(t, "/metrics", `leasehold_running{type="slow"} 1`)
	db, err := sql.Open("sqlite", "file:"+r.file+"?_pragma=busy_timeout(20000)")
	require.NoError(t, err)
	defer db.Close()
	later := func(version, oldest int) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), "INSERT INTO schema_version (version, name, oldest) VALUES (?, 'later', ?)", version, oldest)
		require.NoError(t, err)
	}
	later(98, 1)
	for range 100 {
		status, body := r.get(t, "/-/ready")
		require.Equal(t, http.StatusOK, status, body)
	}
	later(99, 99)
	r.becomes(t, "/-/ready", http.StatusServiceUnavailable, "for binaries that know version 99 or later")
	require.NoError(t, os.WriteFile(finish, nil, 0o600))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		info, err := r.agent.store.Get(t.Context(), id)
		require.NoError(c, err)
		require.Equal(c, task.StateSucceeded, info.State)
		require.Equal(c, 1, info.Attempt)
	}, 20*time.Second, 20*time.Millisecond)
	r.stop(t)
}
