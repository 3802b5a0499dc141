package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// vulncheck runs test/vulncheck with a database on the smallest package that has a dependency.
func vulncheck(t *testing.T, database string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "../test/vulncheck", "./internal/heap")
	c.Env = append(os.Environ(), "GOVULNDB="+database)
	out, err := c.CombinedOutput()
	return string(out), err
}

func TestDatabaseOutOfReach(t *testing.T) {
	out, err := vulncheck(t, "https://127.0.0.1:1")
	require.NoError(t, err, out)
	require.Contains(t, out, "left out: vulnerabilities were not looked for, because the database https://127.0.0.1:1 cannot be reached")
	out, err = vulncheck(t, "file:///nowhere")
	require.Error(t, err, "a mirror that is named has to be there: %s", out)
}

// A database with one entry, on a function of the standard library, is a finding where code calls it, and none where nothing does.
func TestFindingsFail(t *testing.T) {
	out, err := vulncheck(t, mirror(t, "SetMemoryLimit"))
	require.Error(t, err, out)
	require.Contains(t, out, "GO-2026-9999")
	require.Contains(t, out, "debug.SetMemoryLimit")
	out, err = vulncheck(t, mirror(t, "WriteHeapDump"))
	require.NoError(t, err, out)
}

func mirror(t *testing.T, symbol string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"index/db.json":      `{"modified": "2026-11-01T00:00:00Z"}`,
		"index/modules.json": `[{"path": "stdlib", "vulns": [{"id": "GO-2026-9999", "modified": "2026-11-01T00:00:00Z"}]}]`,
		"index/vulns.json":   `[{"id": "GO-2026-9999", "modified": "2026-11-01T00:00:00Z"}]`,
		"ID/GO-2026-9999.json": `{"schema_version": "1.3.1", "id": "GO-2026-9999", "modified": "2026-11-01T00:00:00Z", "published": "2026-11-01T00:00:00Z",
			"database_specific": {"url": "https://pkg.go.dev/vuln/GO-2026-9999"}, "summary": "made for a test", "details": "made for a test", "affected": [{"package": {"name": "stdlib", "ecosystem": "Go"},
			"ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
			"ecosystem_specific": {"imports": [{"path": "runtime/debug", "symbols": ["` + symbol + `"]}]}}]}`,
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return "file://" + dir
}
