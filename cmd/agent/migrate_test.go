package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqlite"
)

// TestMigrateStatusOfANewerSchema lists what the binary knows, and does not end as if that were all.
func TestMigrateStatusOfANewerSchema(t *testing.T) {
	t.Setenv("LEASEHOLD_CONFIG", "")
	path := filepath.Join(t.TempDir(), "newer.db")
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Create: true})
	require.NoError(t, err)
	_, err = s.Migrator().Up(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "INSERT INTO schema_version (version, name, oldest) VALUES (99, 'later', 99)")
	require.NoError(t, err)
	require.NoError(t, db.Close())

	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer out.Close()
	a := &app{cli: &cli{Store: "sqlite:" + path, Output: "jsonl"}, out: out, err: out}
	var newer *store.SchemaError
	require.ErrorAs(t, migrateStatusCmd{}.Run(a), &newer)
	require.Equal(t, 99, newer.Have)
	printed, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	require.Contains(t, string(printed), `"version":1`)
}
