package examples_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestChunksDemo runs `make demo-chunks` on a small table.
func TestChunksDemo(t *testing.T) {
	if !usable("python") {
		t.Log("python is not there")
		return
	}
	t.Parallel()
	program := filepath.Join(t.TempDir(), "chunks")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./examples/chunks")
	build.Dir = harness.Root()
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	play := exec.CommandContext(t.Context(), program, "-leasehold", harness.Binary(t), "-rows", "20000")
	play.Env = append(os.Environ(), interpreters())
	out, err = play.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, 5, strings.Count(string(out), "✓"), "%s", out)

	play = exec.CommandContext(t.Context(), program, "-leasehold", harness.Binary(t))
	play.Env = []string{"PATH=" + t.TempDir()}
	out, err = play.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 2, play.ProcessState.ExitCode())
	require.Contains(t, string(out), "install Python")
}

// TestChunks follows examples/chunks/README.md on each store: the table is filled as it says, with fewer rows, and its last query
// shows that each event was marked once.
func TestChunks(t *testing.T) {
	if !usable("python") {
		t.Log("python is not there")
		return
	}
	dir := filepath.Join(harness.Root(), "examples/chunks")
	guide, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	fills := regexp.MustCompile(`INSERT INTO event \(id\) [WS][^;"'\n]+`).FindAllString(string(guide), -1)
	require.Len(t, fills, 2)
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		chunksOf(t, dir, fills[0], onSQLite(t), onSQLite(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		s := onPostgres(t)
		chunksOf(t, dir, strings.ReplaceAll(fills[1], "1000000", "100000"), s, s)
	})
}

// chunksOf has an agent on one store process the events in the database of another, which may be the same.
func chunksOf(t *testing.T, dir, fill string, s, app stores) {
	app.source = map[bool]string{true: app.app, false: app.source}[app.driver == "pgx"] // the tables are the application's
	st := &stage{t: t, s: s, db: app.open(t)}
	schema, err := os.ReadFile(filepath.Join(dir, "schema.sql"))
	require.NoError(t, err)
	for _, sql := range []string{string(schema), fill} {
		_, err := st.db.ExecContext(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	port := harness.FreePort(t)
	env := append(os.Environ(),
		"DATABASE_URL="+s.agent, "APP_DATABASE_URL="+app.app, fmt.Sprintf("PORT=%d", port), fmt.Sprintf("APP_URL=http://127.0.0.1:%d", port),
		"WEBHOOK_SECRET=whsec_"+base64.StdEncoding.EncodeToString([]byte("the test's own secret, 32 bytes!")), "EVENT_SECONDS=0.00001",
		interpreters(),
	)
	cmd := exec.Command("/usr/bin/env", "python3", "events.py") // env finds it in the PATH above
	cmd.Dir, cmd.Env = dir, env
	harness.StartProcess(t, "events.py", cmd)
	untilListens(t, port)
	agent := harness.StartAgent(t, harness.AgentOptions{
		Name: "agent", Store: s.agent, Paths: []string{filepath.Join(dir, "leasehold.hcl")}, Env: env,
	})

	const left = `SELECT count(*) FROM event WHERE status = 0`
	const group = `SELECT count(*) FROM (SELECT status, times, count(*) FROM event GROUP BY status, times) AS g`
	harness.Until(t, time.Minute, "all events are processed", func() bool { return st.number(left) == 0 })
	_, err = st.db.ExecContext(t.Context(), `INSERT INTO event (id) VALUES (600000), (600001)`)
	require.NoError(t, err)
	harness.Until(t, time.Minute, "the events that were added are processed", func() bool { return st.number(left) == 0 })
	require.EqualValues(t, 1, st.number(group))
	require.EqualValues(t, 100_002, st.number(`SELECT count(*) FROM event WHERE times = 1`))
	require.EqualValues(t, 100_002, st.number(`SELECT sum(events) FROM journal`))
	agent.Drain(t)
}
