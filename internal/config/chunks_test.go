package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/chunk"
)

// cut is a configuration with one chunks block of these attributes and blocks, beside its source.
func cut(attrs, source string) string {
	return "task \"b\" {\n  command {\n    argv = [\"true\"]\n  }\n}\n\nchunks \"a\" {\n  task = \"b\"\n  " + attrs +
		"\n  source {\n    table = \"t\"\n    key = \"id\"\n    " + source + "\n  }\n}\n"
}

// TestChunkSizes: what is not written of a size follows what is.
func TestChunkSizes(t *testing.T) {
	env := map[string]string{"N": "7", "TARGET": "2s"}
	for text, want := range map[string]chunk.Size{
		``:                               {Start: 1000},
		`null`:                           {Start: 1000},
		`1`:                              {Start: 1},
		`1000000`:                        {Start: 1_000_000},
		`env("N")`:                       {Start: 7},
		`{ target = "100ms" }`:           {Target: 100 * time.Millisecond, Start: 1000, Min: 100, Max: 50_000},
		`{ target = "1h", min = 5 }`:     {Target: time.Hour, Start: 1000, Min: 5, Max: 50_000},
		`{ target = "5s", min = 2000 }`:  {Target: 5 * time.Second, Start: 2000, Min: 2000, Max: 50_000},
		`{ target = "5s", min = 60000 }`: {Target: 5 * time.Second, Start: 60_000, Min: 60_000, Max: 60_000},
		`{ target = "5s", max = 500 }`:   {Target: 5 * time.Second, Start: 500, Min: 100, Max: 500},
		`{ target = "5s", max = 1 }`:     {Target: 5 * time.Second, Start: 1, Min: 1, Max: 1},
		`{ target = "5s", start = 50 }`:  {Target: 5 * time.Second, Start: 50, Min: 50, Max: 50_000},
		`{ target = "5s", start = 1000000, max = null }`:                     {Target: 5 * time.Second, Start: 1_000_000, Min: 100, Max: 1_000_000},
		`{ target = "5s", start = 3, min = 2, max = 4 }`:                     {Target: 5 * time.Second, Start: 3, Min: 2, Max: 4},
		`{ target = env("TARGET"), start = env("N"), min = 7, max = "7" }`:   {Target: 2 * time.Second, Start: 7, Min: 7, Max: 7},
		`merge({ target = env("TARGET") }, jsondecode("{\"start\": 2000}"))`: {Target: 2 * time.Second, Start: 2000, Min: 100, Max: 50_000},
	} {
		attr := ""
		if text != "" {
			attr = "size = " + text
		}
		cfg := mustLoad(t, cut(attr, ""), env)
		require.Equal(t, want, cfg.Chunks[0].Spec.Size, text)
		again(t, cfg, env)
	}
}

// TestSizeKeepsCalls: what the environment and files hold is not printed, wherever in a size it is used.
func TestSizeKeepsCalls(t *testing.T) {
	env := map[string]string{"NAME": "target", "TARGET": "2s", "N": "7"}
	for text, want := range map[string]string{
		`env("N")`:                                 `env("N")`,
		`{ max = env("N"), "target" = "120s" }`:    `{ target = "2m", start = 7, min = 7, max = env("N") }`,
		`{ (env("NAME")) = "2s" }`:                 `{ (env("NAME")) = "2s" }`,
		`merge({ target = env("TARGET") }, {})`:    `merge({ target = env("TARGET") }, {})`,
		`merge({ target = "120s" }, { max = 50 })`: `{ target = "2m", start = 50, min = 50, max = 50 }`,
	} {
		cfg := mustLoad(t, cut("size = "+text, ""), env)
		require.Contains(t, effective(t, cfg), "  size   = "+want+"\n")
		again(t, cfg, env)
	}
}

// TestChunkBounds: each bound, on both sides of it.
func TestChunkBounds(t *testing.T) {
	name := func(s string) string { return strings.Replace(cut("", ""), `chunks "a"`, `chunks "`+s+`"`, 1) }
	where := func(s string) string { return cut("", `where = "`+s+`"`) }
	table := func(s string) string { return strings.Replace(cut("", ""), `table = "t"`, `table = "`+s+`"`, 1) }
	for text, well := range map[string]bool{
		name(strings.Repeat("é", 100)):                                 true,
		name(strings.Repeat("é", 100) + "x"):                           false,
		name("a b/c:d"):                                                true,
		name(`a\u0007b`):                                               false,
		cut("ahead = 1", ""):                                           true,
		cut("ahead = 0", ""):                                           false,
		cut("ahead = 10000", ""):                                       true,
		cut("ahead = 10001", ""):                                       false,
		cut("size = 1000001", ""):                                      false,
		cut(`size = { target = "99ms" }`, ""):                          false,
		cut(`size = { target = "3600001ms" }`, ""):                     false,
		cut(`size = { target = "5s", max = 1000000 }`, ""):             true,
		cut(`size = { target = "5s", min = 0 }`, ""):                   false,
		cut(`size = { target = "5s", max = 1000001 }`, ""):             false,
		cut(`follow = "1s"`, `where = "status = 0"`):                   true,
		cut(`follow = "999ms"`, `where = "status = 0"`):                false,
		cut(`follow = "1s"`, ""):                                       false,
		cut(`follow = "1s"`, "where = null"):                           false,
		cut(`follow = null`, ""):                                       true,
		cut("throttle {\n    when = \"SELECT true\"\n  }", ""):         true,
		cut("throttle {\n    oldest_transaction = \"1s\"\n  }", ""):    true,
		cut("throttle {\n    oldest_transaction = \"999ms\"\n  }", ""): false,
		cut("throttle {\n    oldest_transaction = null\n  }", ""):      false,
		where(strings.Repeat("x", maxSQL)):                             true,
		where(strings.Repeat("x", maxSQL+1)):                           false,
		where(" "):                                                     false,
		where("whereabouts = 1"):                                       true,
		where("Where x = 1"):                                           false,
		table(strings.Repeat("x", maxTableName)):                       true,
		table(strings.Repeat("x", maxTableName+1)):                     false,
		table(`\"Odd Name\".\"t\"\"x\"`):                               true,
	} {
		_, err := load(t, text, nil)
		if well {
			require.NoError(t, err, "%s\n%s", text, report(err))
			continue
		}
		var p *Problems
		require.ErrorAs(t, err, &p, text)
		require.Equal(t, 1, p.Count(), "%s\n%s", text, report(err))
	}
}

// TestChunkSourceURLs: a table may be in the store's database, or in another one.
func TestChunkSourceURLs(t *testing.T) {
	for text, want := range map[string]string{
		``: "", `null`: "", `"postgres://u@h/db"`: "postgres://u@h/db", `" postgresql:///db\n"`: "postgresql:///db", `"sqlite:/var/a.db"`: "sqlite:/var/a.db",
		`"sqlite:a.db"`: "sqlite:DIR/a.db", `env("URL")`: "postgres://app:pw@h/db",
	} {
		attr := ""
		if text != "" {
			attr = "url = " + text
		}
		dir := write(t, map[string]string{"leasehold.hcl": cut("", attr)})
		cfg, err := Load([]string{dir}, options(map[string]string{"URL": "postgres://app:pw@h/db"}))
		require.NoError(t, err, "%s\n%s", text, report(err))
		require.Equal(t, want, strings.ReplaceAll(cfg.Chunks[0].Source.URL, dir, "DIR"))
		require.NotContains(t, effective(t, cfg), "pw@")
		require.NotContains(t, cfg.Chunks[0].Words(), "pw@")
	}
}

// TestChunksInSeveralFiles: a name is declared once, wherever. Types may be declared elsewhere, also by agents with another configuration.
func TestChunksInSeveralFiles(t *testing.T) {
	one := cut("", "")
	_, other, _ := strings.Cut(one, "\n\n")
	dir := write(t, map[string]string{"a.hcl": other, "b.hcl": one})
	_, err := Load([]string{dir}, options(nil))
	require.Contains(t, report(err), fmt.Sprintf("The chunks \"a\" are already declared at %s:1.", filepath.Join(dir, "a.hcl")))
	require.Contains(t, report(err), "b.hcl line 7")

	cfg, err := Load([]string{write(t, map[string]string{"a.hcl": other, "b.hcl": taskA})}, options(nil))
	require.NoError(t, err)
	require.Len(t, cfg.Warnings, 1)
	require.Contains(t, cfg.Warnings[0].Place, "a.hcl:2")
	require.Contains(t, cfg.Warnings[0].Text, `The chunk plan "a" inserts tasks of the type "b", which no task block of this configuration declares`)
}

// TestOldestTransactionNeedsPostgres: a store of SQLite may be replaced on the command line, a source may not.
func TestOldestTransactionNeedsPostgres(t *testing.T) {
	const throttle = "throttle {\n    oldest_transaction = \"1m\"\n  }"
	for _, c := range []struct {
		source, store string
		warned        bool
	}{
		{"", "sqlite:a.db", true},
		{"", "postgres://h/db", false},
		{`url = "postgres://h/db"`, "sqlite:a.db", false},
	} {
		cfg := mustLoad(t, cut(throttle, c.source)+"store {\n  url = \""+c.store+"\"\n}\n", nil)
		require.Equal(t, time.Minute, cfg.Chunks[0].Source.OldestTransaction)
		require.Equal(t, c.warned, len(cfg.Warnings) == 1, c)
		if c.warned {
			require.Contains(t, cfg.Warnings[0].Text, "oldest_transaction has no effect")
		}
	}
}

// TestNothingFollowsFromAMistakeInChunks: an attribute that cannot be read is one problem, whichever it is.
func TestNothingFollowsFromAMistakeInChunks(t *testing.T) {
	well := map[string]string{
		"task": `"b"`, "size": "7", "ahead": "7", "follow": `"30s"`, "url": `"postgres://h/db"`, "table": `"t"`, "key": `"id"`, "where": `"x = 0"`,
		"oldest_transaction": `"1m"`, "when": `"SELECT true"`,
	}
	for bad := range well {
		for _, value := range []string{`env("UNSET")`, `task.id`, `[1]`} {
			line := func(name string) string {
				if name == bad {
					return name + " = " + value + "\n"
				}
				if name == "when" || bad == "when" && name == "oldest_transaction" {
					return ""
				}
				return name + " = " + well[name] + "\n"
			}
			text := "chunks \"a\" {\n" + line("task") + line("size") + line("ahead") + line("follow") +
				"source {\n" + line("url") + line("table") + line("key") + line("where") + "}\n" +
				"throttle {\n" + line("oldest_transaction") + line("when") + "}\n}\n"
			_, err := load(t, text, nil)
			var p *Problems
			require.ErrorAs(t, err, &p, bad)
			require.Equal(t, 1, p.Count(), "%s\n%s", bad, report(err))
		}
	}
}

// TestNamesOfOtherChunkers uses the attribute names of other tools in chunks, and expects an error with the name here.
func TestNamesOfOtherChunkers(t *testing.T) {
	for attr, want := range map[string]string{
		`chunk_size = 7`:        "it is size = 1000",
		`gridSize = 4`:          "ahead = 64",
		`table = "t"`:           "it belongs in the source block",
		`when = "SELECT 1"`:     "it belongs in the throttle block",
		`interval = "5s"`:       `it is follow = "30s"`,
		"webhook {\n}":          "it belongs in the task block",
		`payload = {}`:          "says which range it is",
		`targt = "5s"`:          "Allowed in chunks: task, size, ahead, follow; the blocks source, throttle.",
		"source {\n dsn = 1\n}": `it is url = "postgres://user@host/database"`,
		"source {\n id = 1\n}":  `it is key = "id"`,
	} {
		_, err := load(t, "chunks \"a\" {\n  "+attr+"\n}\n", nil)
		require.Contains(t, report(err), want, attr)
	}
	_, err := load(t, "chunk \"a\" {\n}\n", nil)
	require.Contains(t, report(err), `a big table is cut by chunks "name" { … }.`)
}

// TestSecretsInChunksAreNotShown puts secrets wherever one may be in a chunks block, and looks for them in what is printed.
func TestSecretsInChunksAreNotShown(t *testing.T) {
	cfg := mustLoad(t, cut("throttle {\n    when = \"SELECT f('postgres://app:geheim@h/db')\"\n  }",
		"url = \"postgres://app:geheim@h/db\"\n    where = \"a = '${env(\"NONE\", \"Bearer geheim\")}' AND password = geheim\""), nil)
	require.Equal(t, 4, strings.Count(fmt.Sprint(cfg.Chunks[0]), "geheim"), "what is loaded has them")
	text := effective(t, cfg)
	require.NotContains(t, text, "geheim")
	require.Equal(t, 4, strings.Count(text, Redacted), text)
	require.NotContains(t, cfg.Chunks[0].Words(), "geheim")
	again(t, cfg, nil)
	_, err := load(t, text, nil)
	var p *Problems
	require.ErrorAs(t, err, &p, "what was redacted must not be run")
	require.Equal(t, 3, p.Count(), report(err))
}

func TestChunksInWords(t *testing.T) {
	for text, want := range map[string]string{
		cut("", ""): "cuts table t of the store's database by id into chunks of 1000 rows; at most 64 wait or run at once; one pass",
		cut("size = { target = \"5s\" }\n  follow = \"90s\"\n  throttle {\n    oldest_transaction = \"10m\"\n    when = \"SELECT true\"\n  }",
			"url = \"postgres://h/db\"\n    where = \"status = 0\""): "cuts table t by id, its rows for which the condition is true, into chunks that take " +
			"about 5s, of 1000 rows at first and then 100 to 50000; at most 64 wait or run at once; looks for new rows every 1m30s; " +
			"waits while a transaction is older than 10m or the query of throttle returns true",
	} {
		require.Equal(t, want, mustLoad(t, text, nil).Chunks[0].Words())
	}
}
