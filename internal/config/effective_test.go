package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/task"
)

// again loads the effective configuration from elsewhere, on another host, and wants the same.
func again(t testing.TB, cfg *Config, env map[string]string) {
	text := effective(t, cfg)
	dir, err := os.MkdirTemp("", "again") //nolint:usetesting // called for each of many drawn configurations
	require.NoError(t, err)
	defer os.RemoveAll(dir) //nolint:errcheck // a test's leftovers
	path := filepath.Join(dir, "effective.hcl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	opts := options(env)
	opts.Redacted = true
	opts.Hostname = func() (string, error) { return "another", nil }
	second, err := Load([]string{path}, opts)
	require.NoError(t, err, "%s\n%s", text, report(err))
	require.Equal(t, text, effective(t, second))
	if !slices.ContainsFunc(cfg.printed, followsAgent) { // the printed text says it of the types
		require.Equal(t, cfg.Hash, second.Hash)
	}
	if !strings.Contains(text, Redacted) {
		require.Empty(t, cmp.Diff(plain(cfg), plain(second)), text)
	}
}

// followsAgent reports whether something in a block follows from the agent's workers.
func followsAgent(p *printed) bool {
	return len(p.agents) > 0 || slices.ContainsFunc(p.blocks, followsAgent)
}

// plain is a configuration with everything that templates give for some rows in place of the templates.
func plain(cfg *Config) map[string]any {
	out := map[string]any{"agent": cfg.Agent, "store": cfg.Store}
	for _, s := range cfg.Schedules {
		out["schedule "+s.Name] = s
	}
	for _, c := range cfg.Chunks {
		out["chunks "+c.Spec.Name] = c
	}
	for _, t := range cfg.Tasks {
		out[t.Name] = fmt.Sprintf("%q %d %d", t.Aliases, t.Workers, t.Policy.Hash(t.Name))
		for what, target := range map[string]task.Target{"": t.Target, " check": t.Check, " rollback": t.Rollback} {
			plainTarget(out, t.Name+what, target)
		}
	}
	return out
}

func plainTarget(out map[string]any, name string, target task.Target) {
	for i, r := range []*task.Task{row(`{}`), row(`{"a": "x", "n": 7, "list": [1, 2]}`), row(`{"a": "../-", "n": 1.5}`)} {
		for what, f := range templates(target) {
			v, err := f(r)
			out[fmt.Sprint(name, i, what)] = fmt.Sprintf("%q %t", v, err == nil)
		}
	}
	switch target := target.(type) {
	case *task.Webhook:
		out[name+" webhook"] = fmt.Sprint(
			target.Method, target.Secrets, target.Body, target.IdempotencyKey, target.Permanent,
			target.Async, target.CancelGrace)
	case *task.Command:
		dashes := ""
		for _, a := range target.Argv {
			dashes += fmt.Sprint(a.Dash)
		}
		out[name+" command"] = fmt.Sprint(
			dashes, target.Dir, target.User, target.ExitCodes, target.StopSignal, target.StopGrace)
	}
}

// templates lists the templates of a target.
func templates(target task.Target) map[string]task.Template {
	out := make(map[string]task.Template)
	switch target := target.(type) {
	case *task.Webhook:
		out["url"] = target.URL
		for name, f := range target.Headers {
			out["header "+name] = f
		}
	case *task.Command:
		for i, a := range target.Argv {
			out[fmt.Sprint("argv ", i)] = a.Template
		}
		for name, f := range target.Env {
			out["env "+name] = f
		}
	}
	return out
}

func TestEffective(t *testing.T) {
	dir := write(t, map[string]string{"a.hcl": everything, "old.secret": secret + "\n"})
	cfg, err := Load([]string{dir}, options(everythingEnv()))
	require.NoError(t, err)
	again(t, cfg, everythingEnv())
	got := strings.ReplaceAll(effective(t, cfg), dir, "DIR")
	if *update {
		require.NoError(t, os.WriteFile("testdata/effective.hcl", []byte(got), 0o600))
	}
	want, err := os.ReadFile("testdata/effective.hcl")
	require.NoError(t, err)
	require.Equal(t, string(want), got)
	require.NotContains(t, got, "tok\"")
	require.NotContains(t, got, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	require.NotContains(t, got, "postgres://app")
}

// TestSecretsAreNotShown puts literal secrets wherever one may be, and looks for them in what is printed.
func TestSecretsAreNotShown(t *testing.T) {
	cfg := mustLoad(t, `
agent {
  token = "geheim"
}

store {
  url = "postgres://app:geheim@127.0.0.1/app?sslpassword=geheim"
}

task "a" {
  webhook {
    url     = "http://127.0.0.1/"
    secret  = ["whsec_Z2VoZWltZ2VoZWltZ2VoZWltZ2VoZWlt", env("SECRET", "Z2VoZWltZ2VoZWltZ2VoZWltZ2VoZWlt")]
    headers = { Authorization = "Bearer geheim", X-Api-Key = "geheim-${task.id}", X-Auth = env("NONE", "geheim"), X-Plain = "seen" }
  }
}

task "b" {
  command {
    argv = ["sync", "postgres://app:geheim@127.0.0.1/app"]
    env  = { PASSWORD = "geheim", DATABASE_URL = "postgres://app:geheim@127.0.0.1/app", MODE = "seen" }
  }
}

task "c" {
  webhook {
    url    = "http://127.0.0.1/"
    secret = env("SECRET", "Z2VoZWltZ2VoZWltZ2VoZWltZ2VoZWlt")
  }
}

schedule "d" {
  task    = "a"
  every   = "1d"
  payload = {
    token   = "geheim"
    url     = "postgres://app:geheim@127.0.0.1/app"
    nested  = [{ password = ["geheim", 7, null], "api-key" = { a = upper("geheim"), b = "x-${env("NONE", "geheim")}" } }]
    merged  = merge({ secret = "geheim", other = "seen" }, { a = env("NONE", "postgres://app:geheim@127.0.0.1/app") })
    derived = "Bearer ${"geheim"}"
    auth    = env("NONE", "geheim")
    pin_key = 4711
    text    = <<-A
      password=geheim
      seen
    A
  }
}

schedule "e" {
  task    = "a"
  every   = "1d"
  payload = merge(jsondecode("{\"token\": \"geheim\"}"), { token = "ghp_0123456789abcdefghij geheim", key = env("NONE", "geheim"), mode = "seen" })
}
`, nil)
	text := effective(t, cfg)
	require.NotContains(t, text, "geheim")
	require.NotContains(t, text, "Z2Vo")
	require.NotContains(t, text, "GEHEIM")
	require.NotContains(t, text, "4711")
	require.Equal(t, 5, strings.Count(text, "seen"))
	require.Contains(t, string(cfg.Schedules[0].Payload), `"auth":"geheim"`)
	require.Contains(t, text, `secret          = env("SECRET", "(redacted)")`)
	again(t, cfg, nil)

	_, err := load(t, text, nil)
	var p *Problems
	require.ErrorAs(t, err, &p, "what was redacted must not be run")
	require.Contains(t, err.Error(), "Redacted secret")
}

func TestHashIgnoresNameAndSecrets(t *testing.T) {
	hash := func(text string, env map[string]string) string { return mustLoad(t, text, env).Hash }
	const text = "store {\n  url = env(\"URL\")\n}\n"
	base := hash(text, map[string]string{"URL": "postgres://a@h/db"})
	require.Len(t, base, 12)
	require.Equal(t, base, hash(text, map[string]string{"URL": "postgres://b@h/db"}))
	require.Equal(t, base, hash("# a comment\n"+text+"agent {\n  name = \"other\"\n}\n",
		map[string]string{"URL": "postgres://b@h/db"}))
	const daily = "schedule \"a\" {\n  task = \"b\"\n  every = \"1d\"\n"
	scheduled := hash(text+daily+"}\n", map[string]string{"URL": "postgres://b@h/db"})
	require.NotEqual(t, base, scheduled)
	require.Equal(t, scheduled, hash(text+daily+"  overlap = \"skip\" # the default\n}\n", map[string]string{"URL": "postgres://b@h/db"}))
	require.NotEqual(t, scheduled, hash(text+daily+"  payload = { a = 1 }\n}\n", map[string]string{"URL": "postgres://b@h/db"}))
	const chunks = "chunks \"a\" {\n  task = \"b\"\n"
	const source = "  source {\n    table = \"t\"\n    key = \"id\"\n  }\n}\n"
	cut := hash(text+chunks+source, map[string]string{"URL": "postgres://b@h/db"})
	require.NotEqual(t, base, cut)
	require.Equal(t, cut, hash(text+chunks+"  ahead = 64\n  size = 1000\n"+source, map[string]string{"URL": "postgres://b@h/db"}), "the defaults")
	require.NotEqual(t, cut, hash(text+chunks+"  size = { target = \"5s\" }\n"+source, map[string]string{"URL": "postgres://b@h/db"}))
	require.NotEqual(t, base, hash(text+"agent {\n  poll = \"2s\"\n}\n", map[string]string{"URL": "postgres://b@h/db"}))
}

// TestHashIgnoresTheMachine: agents of different sizes, and at different addresses, have the same configuration if they declare the same.
func TestHashIgnoresTheMachine(t *testing.T) {
	hash := func(agent, work string) string {
		return mustLoad(t, "store {\n  url = \"sqlite:/leasehold.db\"\n}\nagent {\n"+agent+"}\n"+
			"task \"a\" {\n"+work+"  command {\n    argv = [\"a\"]\n    dir = \"/\"\n    worker {}\n  }\n}\n", nil).Hash
	}
	base := hash("", "")
	require.Equal(t, base, hash("  workers = 7\n", ""))
	require.Equal(t, base, hash("  workers = 0\n", ""), "an observer")
	require.Equal(t, base, hash("  listen = \"127.0.0.1:7071\"\n  advertise = \"http://here:7071\"\n", ""))
	require.NotEqual(t, base, hash("  region = \"sg\"\n", ""))
	declared := hash("", "  workers = 7\n")
	require.NotEqual(t, base, declared, "here the file says it of the type")
	require.Equal(t, declared, hash("  workers = 7\n", "  workers = 7\n"))
	require.NotEqual(t, declared, hash("", "  workers = 8\n"))

	cfg := mustLoad(t, "agent {\n  workers = 7\n}\ntask \"a\" {\n  webhook {\n    url = \"http://127.0.0.1:1\"\n  }\n}\n", nil)
	require.Equal(t, 2, strings.Count(effective(t, cfg), "= 7\n"), "what is printed has both")
}

// TestEffectiveProperty writes random configurations and loads what they are in effect.
func TestEffectiveProperty(t *testing.T) {
	env := map[string]string{
		"ONE": "1", "SHORT": "2s", "TEXT": "some text", "EMPTY": "", "SECRET": secret, "REL": "sub", "ABS": "/abs/dir", "YES": "true",
		"BASE": "http://127.0.0.1:1", "CRON": "*/5 * * * *", "CRON_TASK": "T1",
	}
	dir := write(t, map[string]string{"note.txt": "a note", "one.txt": "1"})
	path := filepath.Join(dir, "leasehold.hcl")
	rapid.Check(t, func(rt *rapid.T) {
		text := randomConfig(rt)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		cfg, err := Load([]string{path}, options(env))
		if err != nil {
			rt.Fatalf("%s\n%s", text, report(err))
		}
		again(t, cfg, env)
	})
}

// randomConfig writes a configuration without mistakes.
func randomConfig(t *rapid.T) string {
	var b bytes.Buffer
	attr := func(indent, name string, values ...string) {
		if rapid.Bool().Draw(t, name+" written") {
			fmt.Fprintf(&b, "%s%s = %s\n", indent, name, rapid.SampledFrom(values).Draw(t, name))
		}
	}
	b.WriteString("agent {\n")
	attr("  ", "name", `"n"`, `env("TEXT")`, `"${env("TEXT")}-é"`, `null`, "trimspace(<<A\nn\nA\n)")
	attr("  ", "workers", `0`, `5`, `env("ONE")`, `tonumber(trimspace(file("one.txt")))`, `1 + 2`)
	attr("  ", "poll", `"1s"`, `"1500ms"`, `env("SHORT")`, "env(\n \"SHORT\" # why\n)")
	attr("  ", "token", `""`, `env("TEXT")`, `file("note.txt")`, `env("NONE", "")`,
		`"${env("TEXT")}${file("note.txt")}"`, `null`)
	attr("  ", "read_token", `env("SECRET")`, `"${env("SECRET")}${file("note.txt")}"`, `null`)
	attr("  ", "read_only", `true`, `env("YES")`, `null`)
	b.WriteString("}\nstore {\n")
	attr("  ", "url", `"sqlite:x.db"`, `"postgres://h/db"`, `"sqlite:${env("ABS")}/x"`)
	attr("  ", "notify", `false`, `env("YES")`)
	b.WriteString("}\n")
	strings := []string{
		`"plain"`, `"${task.data.a}"`, `task.id`, `"-${task.id}"`, `"${env("TEXT")}-${task.data.n}"`, `env("TEXT")`, `file("note.txt")`,
		`file("${env("REL", "x")}/../note.txt")`, "<<A\nmore ${task.id}\n  text\nA", "<<-A\n    less\n      ${upper(task.type)}\n    A",
		`"%{if task.data.n == 7}seven%{else}${task.data.a}%{endif}"`, `jsonencode(task.data)`, `"$${x} %%{y} \" \\ \n\t é"`, `"${jsonencode(["a", { b = task.id }])}"`,
		`("in" != "out" ? "a" : task.data.a)`, `7`, `true`, `"${-task.data.n + 2 * 3}"`, `join(",", task.data.list[*])`, "upper( // why\n  task.type)",
		`"${try(task.data.x, "none")}"`, `file("note.txt") == "" ? "" : "x"`, `1.50`, `"${file("note.txt")}${task.id}"`,
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "tasks") {
		fmt.Fprintf(&b, "task \"t%d\" {\n", i)
		attr("  ", "aliases", fmt.Sprintf(`["a%d", "b%d"]`, i, i), fmt.Sprintf(`["${env("ONE")}x%d"]`, i), `[]`, `null`)
		attr("  ", "timeout", `"1m30s"`, `env("SHORT")`, `"2d"`)
		attr("  ", "workers", `3`, `env("ONE")`)
		attr("  ", "deadline", `"1h"`, `null`, `env("SHORT")`)
		attr("  ", "redact", `["card", "é.${env("ONE")}"]`, `[]`, `null`, `["$${x}", "\"\n"]`)
		attr("  ", "on_failed", `"dead"`, `null`, `"dead${env("ONE")}"`, `""`)
		retry(t, &b, attr, "task")
		target(t, &b, attr, strings, "task")
		if rapid.Bool().Draw(t, "check") {
			b.WriteString("  check {\n")
			attr("    ", "timeout", `"1m30s"`, `env("SHORT")`)
			target(t, &b, attr, strings, "check")
			b.WriteString("  }\n")
		}
		if rapid.Bool().Draw(t, "rollback") {
			b.WriteString("  rollback {\n")
			attr("    ", "timeout", `"1m30s"`, `"2d"`)
			if rapid.Bool().Draw(t, "rollback's heartbeat") {
				b.WriteString("    heartbeat = \"10s\"\n")
				attr("    ", "max_heartbeat", `"1m"`)
				attr("    ", "require_progress", `true`, `env("YES")`)
			}
			retry(t, &b, attr, "rollback")
			target(t, &b, attr, strings, "rollback")
			b.WriteString("  }\n")
		}
		b.WriteString("}\n")
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "schedules") {
		randomSchedule(t, &b, attr, i)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "chunks") {
		randomChunks(t, &b, attr, i)
	}
	return b.String()
}

func randomSchedule(t *rapid.T, b *bytes.Buffer, attr writer, i int) {
	fmt.Fprintf(b, "schedule \"s%d\" {\n  task = %s\n", i, rapid.SampledFrom([]string{`"t0"`, `"else"`, `lower(env("CRON_TASK"))`}).Draw(t, "task"))
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		fmt.Fprintf(b, "  cron = %s\n", rapid.SampledFrom([]string{`"0 3 * * *"`, `env("CRON")`, `"${env("ONE")} * * * *"`, `"@daily"`}).Draw(t, "cron"))
		attr("  ", "timezone", `"Asia/Singapore"`, `"UTC"`, `null`, `env("EMPTY")`)
	case 1:
		b.WriteString("  every = \"90m\"\n")
	default:
		b.WriteString("  after = env(\"SHORT\")\n")
	}
	value := rapid.SampledFrom([]string{
		`"plain"`, `env("TEXT")`, `7`, `1.50`, `-1e3`, `1 + 2`, `true`, `null`, `[]`, `{}`, `[1, "a", { b = env("ONE") }]`, `{ a = { "b c" = [env("TEXT")] } }`,
		`"${env("TEXT")}-é"`, "<<A\nn\n${env(\"ONE\")}\nA", "<<-A\n   n\n  A", `jsondecode("{\"a\": [1, null]}")`, `file("note.txt")`, `("x")`, `({ a = 1 })`,
		"merge( # why\n {a = 1},\n {b = env(\"ONE\")})", `"$${x} %%{y} \" \\ \n\t é"`, `{ (env("TEXT")) = 1 }`, `{ "${env("ONE")}" = file("one.txt") }`,
		`{ (upper("a")) = 2, "null" = 3, true = 4 }`, "{\n a = 1 # why\n b = 2,\n}", `[<<A` + "\nx\nA\n, 2]", `format("%05d", 7)`, `9007199254740993`,
	})
	one, two := value.Draw(t, "value"), value.Draw(t, "value")
	attr("  ", "payload", "{ a = "+one+"\n \"b c\" = "+two+"\n}", "({ a = "+one+"\n})", `merge({ a = 1 }, { b = env("TEXT") })`, `{}`, `null`,
		`jsondecode("{\"a\": ${file("one.txt")}}")`)
	attr("  ", "jitter", `"500ms"`, `"0s"`, `env("EMPTY")`)
	attr("  ", "from", `"2026-12-01T00:00:00Z"`, `null`)
	attr("  ", "until", `"2027-12-01T00:00:00.5+08:00"`)
	attr("  ", "missed", `"all"`, `"none"`)
	attr("  ", "catch_up", `"1d12h"`, `"36h"`)
	attr("  ", "overlap", `"queue"`, `lower("SKIP")`)
	b.WriteString("}\n")
}

func randomChunks(t *rapid.T, b *bytes.Buffer, attr writer, i int) {
	fmt.Fprintf(b, "chunks \"c%d\" {\n  task = %s\n", i, rapid.SampledFrom([]string{`"t0"`, `lower(env("CRON_TASK"))`}).Draw(t, "task"))
	attr("  ", "size", `7`, `"7"`, `env("ONE")`, `null`, `{ target = "5s" }`, `{ target = env("SHORT"), max = 7, min = null }`, `({ "min" = 200000 + 1, target = "1h" })`,
		"{\n start = env(\"ONE\") # why\n (\"target\") = trimspace(<<A\n7s\nA\n)\n}", `merge({ target = env("SHORT") }, { max = 70 })`,
		`jsondecode("{\"target\": \"2s\", \"start\": ${file("one.txt")}}")`, `{ (lower("MIN")) = 5, target = "100ms" }`,
		`{ (trimspace("${lower("TARGET")}${env("EMPTY")}")) = env("SHORT") }`)
	attr("  ", "ahead", `1`, `env("ONE")`)
	where := rapid.Bool().Draw(t, "where")
	if where {
		attr("  ", "follow", `"30s"`, `env("SHORT")`, `null`)
	}
	b.WriteString("  source {\n    table = \"\\\"Odd Name\\\".t\"\n")
	attr("    ", "url", `"sqlite:x.db"`, `"postgres://h/db"`, `"sqlite:${env("ABS")}/x"`, `null`)
	fmt.Fprintf(b, "    key = %s\n", rapid.SampledFrom([]string{`"id"`, `env("TEXT")`, `lower("ID")`}).Draw(t, "key"))
	if where {
		fmt.Fprintf(b, "    where = %s\n", rapid.SampledFrom([]string{
			`"status = 0"`, `env("TEXT")`, "<<-A\n   a > '$${x}'\n     AND b < ${env(\"ONE\")}\n  A", "<<A\n  a\nA", `"a = '${file("note.txt")}'"`,
		}).Draw(t, "condition"))
	}
	b.WriteString("  }\n")
	if rapid.Bool().Draw(t, "throttle") {
		b.WriteString("  throttle {\n    when = \"SELECT true\"\n  }\n")
	}
	b.WriteString("}\n")
}

// writer writes an attribute, or leaves it out.
type writer func(indent, name string, values ...string)

// retry writes a retry block, or leaves it out.
func retry(t *rapid.T, b *bytes.Buffer, attr writer, what string) {
	if !rapid.Bool().Draw(t, what+" retry") {
		return
	}
	b.WriteString("  retry {\n")
	attr("    ", "limit", `0`, `7`, `env("ONE")`)
	attr("    ", "min", `"3s"`, `env("SHORT")`)
	attr("    ", "max", `"4s"`, `"1h"`)
	attr("    ", "after", `{}`, `{ lost = "1h" }`, `{ "lost" = env("SHORT") }`)
	if what != "rollback" {
		attr("    ", "on", `["lost"]`, `split(",", "lost,failed")`)
	}
	b.WriteString("  }\n")
}

// target writes the target of a block.
func target(t *rapid.T, b *bytes.Buffer, attr writer, strings []string, what string) {
	if rapid.Bool().Draw(t, what+" webhook") {
		b.WriteString("  webhook {\n")
		fmt.Fprintf(b, "    url = %s\n", rapid.SampledFrom([]string{
			`"http://127.0.0.1/x"`, `"${env("BASE")}/${task.data.a}?q=${task.data.n}"`, `"http://h/${upper(task.type)}"`, `"${env("BASE")}"`,
			"\"${\n env(\"BASE\") }/${task.id}\"",
		}).Draw(t, "url"))
		attr("    ", "secret", `env("SECRET")`, `[env("SECRET"), env("SECRET")]`, `null`)
		if what != "check" {
			attr("    ", "async", `true`, `false`)
		}
		attr("    ", "permanent", `[400]`, `[]`, `concat([400], [404])`)
		attr("    ", "headers", `{}`, fmt.Sprintf("{ X-A = %s, \"X-B\" = %s }", `"plain"`, `task.id`),
			"{\n  X-A = env(\"TEXT\")\n  (\"X-C\") = \"${task.id}\" # why\n  X-Token = env(\"TEXT\")\n}")
	} else {
		b.WriteString("  command {\n")
		fmt.Fprintf(b, "    argv = [\"echo\"")
		for range rapid.IntRange(0, 4).Draw(t, "arguments") {
			b.WriteString(", " + rapid.SampledFrom(strings).Draw(t, "argument") + "\n")
		}
		b.WriteString("]\n")
		attr("    ", "dir", `"sub/../other"`, `env("REL")`, `env("ABS")`, `"${env("REL")}/x"`, `"/var/tmp/"`, `null`)
		one, two := rapid.SampledFrom(strings).Draw(t, "value"), rapid.SampledFrom(strings).Draw(t, "value")
		attr("    ", "env", "{ A = "+one+"\n B = "+two+"\n}")
		attr("    ", "user", `"nobody"`, `env("TEXT")`, `null`)
		attr("    ", "exit_codes", `{ 42 = "rejected", "7" = "deferred" }`, `{}`)
		attr("    ", "stop_signal", `"INT"`, `"SIGHUP"`)
		attr("    ", "stop_grace", `"0s"`, `env("SHORT")`)
	}
	b.WriteString("  }\n")
}
