package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/task"
)

func TestPlaceHidesItsPassword(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://me:geheim@db:5432/app?sslmode=disable":      "postgres://me@db:5432/app?sslmode=disable",
		"postgresql://me@db/app":                                "postgresql://me@db/app",
		"postgres:///app?host=/run/postgresql&password=geheim":  "postgres:///app?host=%2Frun%2Fpostgresql",
		"postgres://db/app?sslpassword=geheim&user=me":          "postgres://db/app?user=me",
		"postgres://me:ge%20heim@db/app":                        "postgres://me@db/app",
		"postgres://me:geheim@[::1]:5432,other:5433/app?x=y#zz": "postgres",
	} {
		p, err := placeOf(config.Store{URL: url})
		require.NoError(t, err)
		require.NotContains(t, p.String(), "heim")
		if want != "postgres" { // several hosts are no URL to net/url
			require.Equal(t, want, p.String())
		}
	}
}

func TestPlaceOfRefusesWhatIsNone(t *testing.T) {
	for _, url := range []string{
		"", "leasehold.db", "mysql://root:geheim@db/app", "host=db password=geheim", "sqlite:", "sqlite::memory:",
	} {
		_, err := placeOf(config.Store{URL: url})
		var f *failure
		require.ErrorAs(t, err, &f, url)
		require.Equal(t, exitUsage, f.code)
		require.NotContains(t, err.Error(), "geheim")
	}
}

func TestInsertLine(t *testing.T) {
	sqlite, err := placeOf(config.Store{URL: "sqlite:/tmp/a b.db"})
	require.NoError(t, err)
	require.Equal(t,
		`sqlite3 '/tmp/a b.db' "INSERT INTO task (type, payload) VALUES ('hello', '{}') RETURNING id;"`,
		sqlite.insertLine("hello", "{}"))

	postgres, err := placeOf(config.Store{URL: "postgres://me@db/app", Schema: "leasehold"})
	require.NoError(t, err)
	require.Equal(t,
		`psql postgres://me@db/app -c "INSERT INTO leasehold.task (type, payload) VALUES ('it''s', '{}') RETURNING id;"`,
		postgres.insertLine("it's", "{}"))
	postgres.Schema = "Task Queue"
	require.Equal(t, `psql postgres://me@db/app -c `+
		`'INSERT INTO "Task Queue".task (type, payload) VALUES ('\''a'\'', '\''{}'\'') RETURNING id;'`,
		postgres.insertLine("a", "{}"))
}

func TestWelcome(t *testing.T) {
	p, err := placeOf(config.Store{URL: "sqlite:/var/lib/leasehold.db"})
	require.NoError(t, err)
	cfg := &config.Config{Tasks: []*task.Type{{Name: "hello"}, {Name: "invoice.send"}}}
	text := welcome(cfg, p, "http://127.0.0.1:7070", "")
	require.Contains(t, text, "leasehold runs: hello, invoice.send\n")
	require.Contains(t, text, "http://127.0.0.1:7070")
	require.Contains(t, text, "leasehold enqueue hello --wait\n")
	require.Contains(t, text, "sqlite3 /var/lib/leasehold.db ")
}

// What is suggested works: it has what the type's templates need.
func TestWelcomeSuggestsAPayload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "leasehold.hcl")
	require.NoError(t, os.WriteFile(file, []byte("task \"send\" {\n  webhook {\n    url = \"http://127.0.0.1:8080/${task.data.invoice}\"\n  }\n}\n"), 0o600))
	cfg, err := config.Load([]string{file}, config.Options{})
	require.NoError(t, err)
	text := welcome(cfg, place{path: "/var/lib/leasehold.db"}, "http://127.0.0.1:7070", "")
	require.Contains(t, text, "leasehold enqueue send --payload '{\"invoice\":1}' --wait\n")
	require.Contains(t, text, `VALUES ('\''send'\'', '\''{"invoice":1}'\'') RETURNING id;'`)
	require.Contains(t, text, "dashboard  http://127.0.0.1:7070")
}

func TestEndLine(t *testing.T) {
	row := &task.Task{ID: 7, Type: "invoice.send", State: task.StateRunning}
	require.Equal(t, "task 7  invoice.send  succeeded  3.2 ms",
		endLine(row, task.Outcome{Verdict: task.Succeeded}, task.Transition{State: task.StateSucceeded}, 3200*time.Microsecond, 80))
	failed := task.Outcome{Verdict: task.Failed, Error: "exit code 1: no\x1b such " + strings.Repeat("x", 50)}
	line := endLine(row, failed, task.Transition{State: task.StateRetryPending, Delay: time.Second}, time.Minute, 80)
	require.Equal(t, `task 7  invoice.send  failed  1m0s  again in 1.0 s  no\x1b such xxxxxxxxxxxxxxx…`, line)
	require.Len(t, []rune(line), 80)
	require.Equal(t, "task 7  invoice.send  failed  1m0s  is rolled back",
		endLine(row, task.Outcome{Verdict: task.Failed}, task.Transition{State: task.StateRollbackPending}, time.Minute, 0))
	due := task.Transition{State: task.StatePending}
	for verdict, want := range map[task.Verdict]string{task.Undelivered: "after a pause", task.Drained: "soon", task.Deferred: "at once"} {
		require.Equal(t, "task 7  invoice.send  "+string(verdict)+"  again "+want, endLine(row, task.Outcome{Verdict: verdict}, due, -1, 0))
	}
	row.State = task.StateRollbackRunning
	require.Equal(t, "task 7  invoice.send  rollback lost  its agent is gone",
		endLine(row, task.Outcome{Verdict: task.Lost, Error: "its agent is gone"}, task.Transition{State: task.StateRollbackFailed}, -1, 0))
}

func TestWelcomeWithoutTasks(t *testing.T) {
	text := welcome(&config.Config{}, place{path: "/var/lib/leasehold.db"}, "http://127.0.0.1:7070", "")
	require.Contains(t, text, "no task types are declared")
	require.NotContains(t, text, "enqueue")
	require.NotContains(t, text, "INSERT")
}

func TestSelectionFindsTheSameStore(t *testing.T) {
	t.Setenv("LEASEHOLD_CONFIG", "")
	p, err := placeOf(config.Store{URL: "postgres://me:geheim@db/app"})
	require.NoError(t, err)
	a := &app{cli: &cli{}}
	require.Empty(t, a.selection(nil, p))
	require.Equal(t, " --config a.hcl --config 'b c'", a.selection([]string{"a.hcl", "b c"}, p))
	a.cli.Store = "postgres://me:geheim@db/app"
	require.Equal(t, " --store postgres://me@db/app", a.selection(nil, p))
}
