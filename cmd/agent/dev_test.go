package main

import (
	"testing"

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
		sqlite.insertLine("hello"))

	postgres, err := placeOf(config.Store{URL: "postgres://me@db/app", Schema: "leasehold"})
	require.NoError(t, err)
	require.Equal(t,
		`psql postgres://me@db/app -c "INSERT INTO leasehold.task (type, payload) VALUES ('it''s', '{}') RETURNING id;"`,
		postgres.insertLine("it's"))
	postgres.Schema = "Task Queue"
	require.Equal(t, `psql postgres://me@db/app -c `+
		`'INSERT INTO "Task Queue".task (type, payload) VALUES ('\''a'\'', '\''{}'\'') RETURNING id;'`,
		postgres.insertLine("a"))
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

func TestWelcomeWithoutTasks(t *testing.T) {
	text := welcome(&config.Config{}, place{path: "/var/lib/leasehold.db"}, "http://127.0.0.1:7070", "")
	require.Contains(t, text, "no task is declared")
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
