package examples_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestMove has the application of examples/move carry its plan out twice, on each store: the first time one service has
// no room where it is to go, and all is as before; then all of them move. `make demo-batch` plays the same and looks at
// more, on SQLite.
func TestMove(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "move")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./examples/move")
	build.Dir = harness.Root()
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	// Every seventh answer to a task is lost after its effect has been committed.
	app := application{dir: "move", argv: []string{binary, "-serve", "-work", "20ms", "-lose", "7"}}
	t.Run("postgres", func(t *testing.T) { move(t, app, onPostgres(t)) })
	t.Run("sqlite", func(t *testing.T) { move(t, app, onSQLite(t)) })
}

func move(t *testing.T, app application, s stores) {
	f := &fleet{start(t, app, s)}
	f.do("/plans?to=az2", http.StatusCreated)
	require.EqualValues(t, 200, f.number(`SELECT count(*) FROM plan`))
	f.do("/services/svc-042?to=az2&address=10.2.7.1", http.StatusOK)
	f.do("/services/svc-137?to=az2&address=10.2.7.2", http.StatusOK)
	before := f.state()

	batch := f.batch("rolled_back")
	require.Equal(t, before, f.state())
	moved := f.number(`SELECT count(*) FROM journal WHERE phase = 'run'`)
	require.Greater(t, moved, int64(100))
	f.has(batch, "succeeded", 2) // by hand
	require.EqualValues(t, 2, f.number(`
SELECT count(*) FROM `+s.schema+`tasks WHERE batch_id = $1 AND state = 'succeeded' AND NOT ever_started`, batch), "they were never started")
	started := f.number(`SELECT count(*) FROM `+s.schema+`tasks WHERE batch_id = $1 AND ever_started`, batch)
	require.Greater(t, started, moved, "svc-160 was started, and has not moved")
	f.has(batch, "rolled_back", started)
	f.has(batch, "cancelled", 200-2-started)
	require.Equal(t, 2*moved, f.number(`SELECT count(*) FROM journal`))
	require.Equal(t, moved, f.number(`
SELECT count(*) FROM journal AS back JOIN journal AS run ON run.task = back.task AND run.n < back.n AND run.fence < back.fence
WHERE back.phase = 'rollback' AND run.phase = 'run'`), "each was moved once and then moved back once")
	require.Zero(t, f.number(`SELECT count(*) FROM journal WHERE service IN ('svc-042', 'svc-137', 'svc-160')`))

	f.do("/zones/az2?room=320", http.StatusOK)
	again := f.batch("succeeded")
	require.NotEqual(t, batch, again)
	f.has(again, "succeeded", 200)
	require.EqualValues(t, 200, f.number(`SELECT count(*) FROM service WHERE zone = 'az2'`))
	require.EqualValues(t, 299, f.number(`SELECT used FROM zone WHERE name = 'az2'`))
	require.Equal(t, 2*moved+198, f.number(`SELECT count(*) FROM journal`))
}

// fleet is the application with its agent.
type fleet struct{ *stage }

// do asks the application for something.
func (f *fleet) do(path string, want int) {
	f.t.Helper()
	status, _ := f.post(path, nil)
	require.Equal(f.t, want, status)
}

// batch carries the plan out and waits until the application was notified of the batch's end, once.
func (f *fleet) batch(state string) (id int64) {
	f.t.Helper()
	f.do("/moves?to=az2", http.StatusCreated)
	id = f.number(`SELECT max(batch) FROM relocation`)
	harness.Until(f.t, time.Minute, "the batch has ended", func() bool {
		return f.number(`SELECT count(*) FROM `+f.s.schema+`batches WHERE id = $1 AND ended_at IS NOT NULL`, id) == 1
	})
	var is string
	query := `SELECT state FROM ` + f.s.schema + `batches WHERE id = $1`
	require.NoError(f.t, f.db.QueryRowContext(f.t.Context(), query, id).Scan(&is))
	require.Equal(f.t, state, is)
	require.Equal(f.t, "succeeded", f.wait(f.number(`
SELECT max(id) FROM `+f.s.schema+`tasks WHERE type = 'move.finished'`)).State)
	require.EqualValues(f.t, 1, f.number(`SELECT notified FROM relocation WHERE batch = $1`, id))
	require.Equal(f.t, f.number(`SELECT count(*) FROM relocation`), f.number(`
SELECT count(*) FROM `+f.s.schema+`tasks WHERE type = 'move.finished'`))
	return id
}

// has wants so many tasks of a batch to be in a state, and the batch to know it.
func (f *fleet) has(batch int64, state string, n int64) {
	f.t.Helper()
	require.Equal(f.t, n, f.number(`
SELECT count(*) FROM `+f.s.schema+`tasks WHERE batch_id = $1 AND state = $2`, batch, state), state)
	require.Equal(f.t, n, f.number(`SELECT `+state+` FROM `+f.s.schema+`batches WHERE id = $1`, batch), state)
}

// state is all that the application keeps of services and zones.
func (f *fleet) state() (all []string) {
	f.t.Helper()
	rows, err := f.db.QueryContext(f.t.Context(), `
SELECT name || ': ' || zone || ', ' || address || ', ' || size || ', ' || number FROM service
UNION ALL SELECT name || ': ' || network || ', ' || used || ' of ' || room FROM zone`)
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, rows.Close()) }()
	for rows.Next() {
		var row string
		require.NoError(f.t, rows.Scan(&row))
		all = append(all, row)
	}
	require.NoError(f.t, rows.Err())
	require.Len(f.t, all, 202)
	slices.Sort(all)
	return all
}

// TestMoveGuide wants the SQL in examples/move/README.md to be what the application runs.
func TestMoveGuide(t *testing.T) {
	dir := filepath.Join(harness.Root(), "examples/move")
	guide, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	source, err := os.ReadFile(filepath.Join(dir, "database.go"))
	require.NoError(t, err)
	found := 0
	for i, part := range strings.Split(string(guide), "\n```") {
		language, code, _ := strings.Cut(part, "\n")
		if i%2 == 0 || language != "sql" {
			continue
		}
		for statement := range strings.SplitSeq(strings.TrimRight(code, ";\n"), ";\n") {
			found++
			require.Contains(t, string(source), "`\n"+strings.TrimSpace(statement)+"`")
		}
	}
	require.Equal(t, 4, found)
}
