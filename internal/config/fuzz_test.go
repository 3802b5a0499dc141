package config

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
			fuzzRow(t, typ.Target, &task.Task{ID: 1, Type: "a/b", Payload: []byte(payload), Labels: []byte(`{"x": "y"}`)})
		}
	})
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
			other, err := f(&task.Task{Payload: []byte(`{}`)})
			if o, parseErr := url.Parse(other); err == nil && parseErr == nil {
				require.Equal(t, o.Host, u.Host, "the row changed the host")
			}
		case strings.HasPrefix(name, "header"):
			require.NoError(t, checkHeaderValue(s))
		default:
			require.NotContains(t, s, "\x00")
		}
	}
}
