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

// newFile makes a migrated file in a directory of its own, and returns its path. The key for ping URLs is the same in all.
// The file is in memory where the system has a place for that, because a commit waits for the disk; at full length it is not.
func newFile(t testing.TB) string {
	t.Helper()
	content, err := migrated()
	require.NoError(t, err)
	path := filepath.Join(fileDir(t), "store.db")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// fileDir makes a directory that is removed when the test is over.
func fileDir(t testing.TB) string {
	t.Helper()
	in := memoryDir()
	if in == "" || os.Getenv("LEASEHOLD_TEST_FULL") != "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(in, "leasehold-test-") //nolint:usetesting // that is on a disk
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}
