package sqlite

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// embedded are the schema's files, to be changed.
func embedded(t *testing.T) fstest.MapFS {
	t.Helper()
	all := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var b []byte
			b, err = files.ReadFile(name)
			all[name] = &fstest.MapFile{Data: b}
		}
		return err
	}))
	return all
}

// nextVersion has one step more, which adds a column where schema.sql has it, and changes a function.
func nextVersion(t *testing.T) *schemaFiles {
	t.Helper()
	next := embedded(t)
	change := func(name, from, to string) {
		text := string(next[name].Data)
		require.Equal(t, 1, strings.Count(text, from))
		next[name] = &fstest.MapFile{Data: []byte(strings.Replace(text, from, to, 1))}
	}
	require.Equal(t, 1, version(), "of this test the number of the step is part")
	hold := string(next["functions/hold.sql"].Data)
	change("schema.sql", "    body TEXT NOT NULL -- JSON\n", "    body TEXT NOT NULL -- JSON\n, later TEXT")
	change("functions/hold.sql", "AND claim > 0", "AND claim > 0 AND fence > 0")
	for name, text := range map[string]string{
		"up": "-- oldest: 2\nALTER TABLE policy ADD COLUMN later TEXT;", "down": "ALTER TABLE policy DROP COLUMN later;\nDROP VIEW hold;\n" + hold,
	} {
		next["migrations/0002_later."+name+".sql"] = &fstest.MapFile{Data: []byte(text)}
	}
	return readSchema(next)
}

// A new file gets the same schema as an older one that goes through the steps, by Up and by the printed script.
func TestStepsLeadToTheSchema(t *testing.T) {
	t.Parallel()
	older, byHand, fresh := newHarness(t), newHarness(t), empty(t)
	before := shape(t, older.app)
	next := nextVersion(t)
	applied, err := migrator{fresh.Store, next}.Up(t.Context())
	require.NoError(t, err)
	require.Len(t, applied, 2, "it is recorded as having all of them")
	require.NotEqual(t, before, shape(t, fresh.app))
	applied, err = migrator{older.Store, next}.Up(t.Context())
	require.NoError(t, err)
	require.Len(t, applied, 1)
	require.Equal(t, "0002_later", applied[0].Name)
	script, err := migrator{byHand.Store, next}.SQL(1)
	require.NoError(t, err)
	require.NotContains(t, script, "CREATE TABLE task ")
	require.NoError(t, byHand.exec(t, script))
	for _, h := range []*harness{older, byHand} {
		require.Equal(t, shape(t, fresh.app), shape(t, h.app))
		status, err := migrator{h.Store, next}.Status(t.Context())
		require.NoError(t, err)
		require.NotNil(t, status[1].Applied)
		require.ErrorAs(t, h.Ping(t.Context()), new(*store.SchemaError), "this binary does not know the step")
		rolledBack, err := migrator{h.Store, next}.Down(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, rolledBack.Version)
		require.Equal(t, before, shape(t, h.app))
		require.NoError(t, h.Ping(t.Context()))
	}
}

// A gap, a step with no way back, and one that does not declare a possible range are mistakes that no test misses.
func TestStepsAreComplete(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"0003_c", "-- oldest: 1", "0003_c is out of order"},
		{"0002_b", "-- oldest: 1", "0002_b.down.sql"},
		{"0002_b", "ALTER TABLE x ADD y INTEGER; -- oldest: 1", "the first line must say"},
		{"0002_b", "-- oldest: 3", "between 1, that of the step before, and 2"},
	} {
		func() {
			defer func() { require.Contains(t, fmt.Sprint(recover()), c.want) }()
			readSchema(fstest.MapFS{
				"schema.sql": {}, "drop.sql": {}, "migrations/" + c.name + ".up.sql": {Data: []byte(c.text)},
			})
		}()
	}
}

// Rows go through a step up and down, and lose nothing but what came with it. The bound on payloads stays as it was set.
func TestAStepKeepsTheRows(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m := migrator{h.Store, nextVersion(t)}
	p := beating(nil)
	session := h.session(t, p)
	rows := h.held(t, session, p, task.Run, 3, time.Hour)
	_, err := h.Settle(t.Context(), session, []store.Settlement{succeeded(rows[0]), released(rows[1])})
	require.NoError(t, err)
	require.NoError(t, h.Leave(t.Context(), session))
	require.NoError(t, h.Migrator().SetMaxPayload(t.Context(), 1<<18))
	before, key, first := h.everything(t), h.secret(t), shape(t, h.app)
	applied, err := m.Up(t.Context())
	require.NoError(t, err)
	require.Len(t, applied, 1)
	require.Equal(t, version()+1, applied[0].Version)
	require.NoError(t, h.exec(t, "UPDATE policy SET later = 'x'"))
	bytes, err := m.MaxPayload(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1<<18, bytes)
	long := `"` + strings.Repeat("x", 1<<18) + `"`
	require.ErrorContains(t, h.exec(t, "INSERT INTO task (type, payload) VALUES ('x', ?)", long), "payload must be 256 KiB at most")

	rolledBack, err := m.Down(t.Context())
	require.NoError(t, err)
	require.Equal(t, version()+1, rolledBack.Version)
	require.Equal(t, before, h.everything(t))
	require.Equal(t, first, shape(t, h.app))
	require.Equal(t, key, h.secret(t))
	require.NoError(t, h.Ping(t.Context()))

	require.NoError(t, h.exec(t, "CREATE TABLE schema_later (x)"))
	m.files.steps[1].up += "CREATE TABLE schema_later (x);"
	_, err = m.Up(t.Context())
	require.ErrorContains(t, err, "0002_later", "a step that fails")
	require.Equal(t, before, h.everything(t), "leaves nothing behind")
}

// A file with rows in every state, written by hand as earlier agents may have left them, goes through a step: what was there
// can be rolled back and retried then. It goes down again and up once more.
func TestRowsInEveryStateSurviveAStep(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m := migrator{h.Store, nextVersion(t)}
	p := beating(nil)
	body, err := json.Marshal(p)
	require.NoError(t, err)
	require.NoError(t, h.exec(t, "INSERT INTO policy (hash, type, body) VALUES (?, 'x', ?)", int64(p.Hash("a")), string(body)))
	for i, state := range task.States() {
		columns, values := "", ""
		table := "task"
		if state.Finished() {
			table, columns, values = "task_archive", ", finished_at, claimed_at, priority, run_at, payload, created_at",
				", '2026-11-20T08:00:01.000Z', '2026-11-20T08:00:00.000Z', 0, '2026-11-20T08:00:00.000Z', '{}', '2026-11-20T08:00:00.000Z'"
		}
		require.NoError(t, h.exec(t, fmt.Sprintf(`INSERT INTO %s (id, type, state, key, attempt, deferrals, ever_started, fence, session, claim, policy, outcome%s)
			VALUES (?1, 'x', ?2, ?1, 1, 0, 1, 2, 1, 1, ?3, 'failed'%s)`, table, columns, values), i+1, string(state), int64(p.Hash("a"))))
	}
	before := h.everything(t)
	_, err = m.Up(t.Context())
	require.NoError(t, err)
	for i, state := range task.States() {
		info, err := h.Get(t.Context(), task.ID(i+1))
		require.NoError(t, err)
		require.Equal(t, state, info.State)
		require.Zero(t, info.Batch)
		require.Zero(t, info.Round)
		require.Empty(t, info.Cause)
	}
	_, err = m.Down(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, h.everything(t))
	_, err = m.Up(t.Context())
	require.NoError(t, err)
	for i, state := range task.States() {
		id := task.ID(i + 1)
		switch state {
		case task.StateFailed:
			became, err := h.Retry(t.Context(), id, "")
			require.NoError(t, err)
			require.Equal(t, store.Became(task.StatePending), became)
		case task.StateSucceeded, task.StateCancelled, task.StateRollbackFailed, task.StateRetryPending:
			became, err := h.Rollback(t.Context(), id, "")
			require.NoError(t, err)
			require.Equal(t, store.Became(task.StateRollbackPending), became, state)
		}
	}
	h.batchOf(t, 3)
	require.NoError(t, h.exec(t, "INSERT INTO enqueue (type) VALUES ('y')"))
	require.NoError(t, h.exec(t, "INSERT INTO cancel (id) SELECT id FROM task WHERE type = 'y'"))
	before = h.everything(t)
	_, err = m.Down(t.Context())
	require.NoError(t, err)
	_, err = m.Up(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, h.everything(t))
	counted(t, h)
}
