package sqlite

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/store"
)

// asNobody runs f without root's right to open any file. Only the thread's rights change (setfsuid(2)), and SQLite works
// on the thread of its caller.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Geteuid() == 0 {
		require.NoError(t, unix.Setfsuid(65534))
		defer func() { require.NoError(t, unix.Setfsuid(0)) }()
	}
	f()
}

func TestMissingRightsAreNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // otherwise the user nobody cannot reach dir
	path := filepath.Join(dir, "store.db")
	s, err := Open(t.Context(), Options{Path: path, Create: true})
	require.NoError(t, err)
	_, err = s.Migrator().Up(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for _, c := range []struct {
		name      string
		file, dir os.FileMode
		wrong     string
	}{
		{"a file that cannot be read", 0o000, 0o777, "this user must be able to read and write it"},
		{"a file that cannot be written", 0o444, 0o777, "this user may not write it"},
		{"a directory that cannot be written", 0o666, 0o555, "this user"},
	} {
		require.NoError(t, os.Chmod(path, c.file))
		require.NoError(t, os.Chmod(dir, c.dir))
		asNobody(t, func() {
			s, err := Open(t.Context(), Options{Path: path, Create: true})
			if err == nil {
				_, _, err = s.Enqueue(t.Context(), store.EnqueueRequest{Type: "x"})
				require.NoError(t, s.Close())
			}
			require.ErrorContains(t, err, c.wrong, c.name)
			require.ErrorContains(t, err, path, c.name)
		})
	}
}
