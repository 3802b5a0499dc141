package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// options are those of a machine that is the same everywhere.
func options(env map[string]string) Options {
	return Options{
		LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Hostname:  func() (string, error) { return "host-1", nil },
	}
}

// write puts files into a new directory and returns it.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

// load loads one text as a file.
func load(t testing.TB, text string, env map[string]string) (*Config, error) {
	t.Helper()
	dir := write(t, map[string]string{"leasehold.hcl": text})
	return Load([]string{filepath.Join(dir, "leasehold.hcl")}, options(env))
}

// mustLoad is load for texts without mistakes.
func mustLoad(t testing.TB, text string, env map[string]string) *Config {
	t.Helper()
	cfg, err := load(t, text, env)
	require.NoError(t, err, "%s", report(err))
	return cfg
}

// report is everything that an error says.
func report(err error) string {
	var p *Problems
	if !errors.As(err, &p) {
		return ""
	}
	var b bytes.Buffer
	_ = p.Write(&b, false, 0)
	return b.String()
}

// effective is the effective configuration as text.
func effective(t testing.TB, cfg *Config) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, cfg.Effective(&b))
	return b.String()
}
