package config

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

// FuzzLoad loads anything as a configuration and evaluates what comes out for any row. Nothing may panic, hang or
// grow; what loads must print as itself; and no row may leave the place in a URL that was meant for it.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/errors/*.hcl")
	require.NoError(f, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(f, err)
		if len(text) < 4<<10 {
			f.Add(string(text), `{"a": 1}`)
		}
	}
	f.Add(everything, `{"invoice": "../x", "file": "-a", "mode": "é"}`)
	env := everythingEnv()
	f.Fuzz(func(t *testing.T, text, payload string) {
		if len(text) > 16<<10 || len(payload) > 16<<10 {
			return
		}
		cfg, ok := fuzzLoad(t, text, env, false)
		if !ok {
			return
		}
		printed := effective(t, cfg)
		second, ok := fuzzLoad(t, printed, env, true)
		require.True(t, ok, printed)
		require.Equal(t, printed, effective(t, second))
		for _, typ := range cfg.Tasks {
			r := &task.Task{ID: 1, Type: "a/b", Payload: []byte(payload), Labels: []byte(`{"x": "y"}`)}
			fuzzRow(t, typ.Target, r)
			fuzzRow(t, typ.Check, r)
			r.State = task.StateRollbackRunning
			r.Payload, r.Result = []byte(`{}`), []byte(`{"rollback":`+payload+`}`)
			fuzzRow(t, typ.Rollback, r)
		}
	})
}

// FuzzTemplate evaluates any expression as an argument and as part of a URL for any row, as the payload of a schedule, and in chunks.
func FuzzTemplate(f *testing.F) {
	for _, expr := range []string{
		`"${task.data.a}"`, `task.data.a[0].b`, `"x-${upper(task.data.a)}"`, `"%{if task.data.a}b%{else}c%{endif}"`, `jsonencode(task.data)`,
		`"${task.data.a + 1 * -2 / 3 % 4}"`, `format("%05d %s %#v %[1]q", task.data.a, task.type)`, `replace(task.data.a, "b", task.data.a)`,
		`regexreplace(task.data.a, "(b)", "$1$1")`, `join(task.data.a, split("b", task.data.a))`, `try(task.data.x, jsondecode(task.data.a), "c")`,
		`"<<A\n${task.id}\nA\n"`, `substr(task.data.a, -2, 1)`, `sort(task.data.a[*])[0]`, `merge(task.data, {a = 1}).a`, `element(task.data.a, -7)`,
		`task.data.a == null ? task.key : task.labels.x`, `tostring(max(task.data.a...))`, `base64decode(task.data.a)`, `slice(task.data.a, 0, 1)[0]`,
		`lookup(task.data, task.data.a, "d")`, `regex(task.data.a, task.data.a)`, `trim(task.data.a, task.data.a)`,
		`formatlist("%[1]s%[1]s", task.data.a)[0]`, `contains(task.data.a, task.data)`, `task.data.a > 1 ? task.data.a : [1]`,
		`ceil(task.data.a)`, `task.data.a[task.data.a]`, `formatlist("%s-%s", task.data.a, ["x"])[0]`, `coalesce(task.data.a, keys(task.data)[0])`,
		`env("NONE", "")`, `file("old.secret")`, `tonumber(task.data.a) > 1e3 && !contains(["x"], task.data.a) || task.attempt >= 0x10`,
	} {
		f.Add(expr, `{"a": "b"}`)
		f.Add(expr, `{"a": [1, {"b": 1e400}, "1e999999999"]}`)
		f.Add(expr, `{"a": 9007199254740993}`)
	}
	for _, expr := range []string{
		`{ b = env("TOKEN"), (env("BASE")) = [1, null, true] }`, `merge({ key = env("TOKEN") }, jsondecode("{\"b\": 1e3}"))`, "<<A\n${env(\"TOKEN\")}\nA", `-1.50`,
		`{ target = "5s", (env("NONE", "max")) = 7, min = null }`, `7`, `"status = 0 AND password='x'"`, `"Bearer ${"x"}"`, `{ slot = 1, "c d" = { b = null } }`,
	} {
		f.Add(expr, `{}`)
	}
	env := everythingEnv()
	f.Fuzz(func(t *testing.T, expr, payload string) {
		if len(expr) > 1<<10 || len(payload) > 16<<10 {
			return
		}
		start := cpuTime(t)
		for _, text := range []string{
			"task \"a\" {\n  command {\n    argv = [\"echo\", " + expr + "\n]\n  }\n}\n",
			"task \"a\" {\n  webhook {\n    url = \"http://h/x${" + expr + "}?y=${" + expr + "}\"\n    headers = { X-A = " + expr + "\n}\n  }\n}\n",
			"schedule \"a\" {\n  task = \"a\"\n  every = \"1d\"\n  payload = { a = " + expr + "\n token = [" + expr + "\n] }\n}\n",
			"chunks \"a\" {\n  task = \"a\"\n  size = " + expr + "\n  source {\n    table = \"t\"\n    key = \"id\"\n  }\n}\n",
			"chunks \"a\" {\n  task = \"a\"\n  size = { target = \"5s\", start = " + expr + "\n }\n  follow = \"1s\"\n  source {\n    table = " + expr +
				"\n    key = \"id\"\n    where = " + expr + "\n  }\n}\n",
		} {
			cfg, ok := fuzzLoad(t, text, env, false)
			if !ok {
				continue
			}
			printed := effective(t, cfg)
			second, ok := fuzzLoad(t, printed, env, true)
			require.True(t, ok, printed)
			require.Equal(t, printed, effective(t, second))
			if !strings.Contains(printed, Redacted) {
				require.Equal(t, cfg.Schedules, second.Schedules, printed)
				require.Equal(t, cfg.Chunks, second.Chunks, printed)
			}
			r := &task.Task{ID: 1, Type: "a/b", Payload: []byte(payload)}
			for _, typ := range cfg.Tasks {
				fuzzRow(t, typ.Target, r)
			}
		}
		require.Less(t, cpuTime(t)-start, 5*time.Second, "too much work for so little input")
	})
}

// cpuTime returns the CPU time that the process has used so far. Elapsed time means little on a busy machine.
func cpuTime(t *testing.T) time.Duration {
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// fuzzLoad is Load without files.
func fuzzLoad(t *testing.T, text string, env map[string]string, redacted bool) (*Config, bool) {
	opts := options(env)
	opts.Redacted = redacted
	l := newLoader(opts)
	l.outside.files[absolute("testdata/old.secret")] = secret
	body := l.parse("fuzz.hcl", []byte(text))
	cfg := &Config{}
	if body != nil {
		cfg = l.decode([]*source{{name: "fuzz.hcl", dir: absolute("testdata"), body: body}}, absolute("testdata"))
	}
	p := l.problems()
	if p == nil {
		return cfg, true
	}
	require.NotEmpty(t, p.Error())
	shown := report(p)
	require.NotEmpty(t, shown)
	if redacted {
		t.Logf("%s", shown)
	}
	return nil, false
}

// fuzzRow evaluates everything of a target for one row.
func fuzzRow(t *testing.T, target task.Target, r *task.Task) {
	for name, f := range templates(target) {
		s, err := f(r)
		if err != nil {
			require.Contains(t, err.Error(), "fuzz.hcl:")
			continue
		}
		require.LessOrEqual(t, len(s), maxArgument)
		switch {
		case name == "url":
			u, err := url.Parse(s)
			require.NoError(t, err)
			require.Contains(t, []string{"http", "https"}, u.Scheme)
			require.NotEmpty(t, u.Host)
			require.Nil(t, u.User)
			for _, payload := range []string{`{}`, `{"a": "b"}`, `{"a": [{"b": 1}]}`} {
				other, err := f(&task.Task{ID: 2, Type: "x", Key: "k", Region: "r", Payload: []byte(payload)})
				if o, parseErr := url.Parse(other); err == nil && parseErr == nil {
					require.Equal(t, o.Scheme+"://"+o.Host, u.Scheme+"://"+u.Host, "the row changed the host")
				}
			}
		case strings.HasPrefix(name, "header"):
			require.NoError(t, checkHeaderValue(s))
		default:
			require.NotContains(t, s, "\x00")
		}
	}
}
