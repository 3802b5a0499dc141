package sqlite

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
)

// findings returns what doctor finds under a name.
func findings(t *testing.T, s *Store, name string) (found []ops.Finding) {
	t.Helper()
	for _, f := range ops.Doctor(t.Context(), s, ops.DoctorOptions{}, time.Now).Findings {
		if f.Name == name {
			require.Equal(t, ops.Problem, f.Severity)
			require.NotEmpty(t, f.Remedy)
			found = append(found, f)
		}
	}
	return found
}

func TestDoctorFindsFilesOfOthers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.Empty(t, findings(t, h.Store, "file_permissions"))
	require.NoError(t, os.Chmod(h.path, 0o640))
	found := findings(t, h.Store, "file_permissions")
	require.Len(t, found, 1)
	require.Contains(t, found[0].What, "(mode 640)")
	require.Contains(t, found[0].Remedy, "chmod 600 "+h.path)
	shared := open(t, Options{Path: h.path, Group: "0"})
	require.Empty(t, findings(t, shared, "file_permissions"), "a group may use it")
	require.NoError(t, os.Chmod(h.path, 0o664))
	require.Contains(t, findings(t, shared, "file_permissions")[0].Remedy, "chmod 660 "+h.path)
}

// A reader that does not end keeps the log from being moved into the file.
func TestDoctorFindsALogThatGrows(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.Empty(t, findings(t, h.Store, "wal_size"))
	tx, err := h.app.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	reader := application(t, h.path)
	conn, err := reader.Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	var n int
	_, err = conn.ExecContext(t.Context(), "BEGIN")
	require.NoError(t, err)
	require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT count(*) FROM task").Scan(&n))
	for range 72 {
		require.NoError(t, h.exec(t, "INSERT INTO audit (verb, reason, answer) VALUES ('a', hex(zeroblob(512 * 1024)), 'b')"))
	}
	found := findings(t, h.Store, "wal_size")
	require.Len(t, found, 1)
	require.Contains(t, found[0].What, "MiB of the write-ahead log")
	_, err = conn.ExecContext(t.Context(), "COMMIT")
	require.NoError(t, err)
	require.Empty(t, findings(t, h.Store, "wal_size"))
}

// An operation of the file system that says nothing finds nothing.
func TestRoomOfAFile(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	free, size := roomOf(h.path)
	require.Positive(t, size)
	require.LessOrEqual(t, free, size)
	free, size = roomOf("/no/such/directory/file")
	require.Zero(t, free+size)
}

// The file system is small only by what the store is told of it: a real one takes a mount.
func TestDoctorFindsAFullFileSystem(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	asked := ""
	left := uint64(3 << 30)
	h.Store.room = func(path string) (free, size uint64) {
		asked = path
		return left, 100 << 30
	}
	found := findings(t, h.Store, "disk_space")
	require.Len(t, found, 1)
	require.Equal(t, h.path, asked)
	require.Contains(t, found[0].What, "3.0 GiB left of 100.0 GiB")
	left = 6 << 30
	require.Empty(t, findings(t, h.Store, "disk_space"))
}
