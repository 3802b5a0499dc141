package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// migrated is the content of a file that was migrated and closed: to copy it takes a fraction of what the migrations do.
var migrated = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "leasehold-template")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "store.db")
	s, err := Open(context.Background(), Options{Path: path, Create: true})
	if err != nil {
		return nil, err
	}
	_, err = s.Migrator().Up(context.Background())
	if closed := s.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// newFile makes a migrated file in a directory of its own, and gives its path. The key for ping URLs is the same in all.
func newFile(t testing.TB) string {
	t.Helper()
	content, err := migrated()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "store.db")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}
