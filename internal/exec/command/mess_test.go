package command

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// nest makes a chain of directories, each in the one before.
func nest(t *testing.T, path string, depth int) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for range depth {
		require.NoError(t, unix.Mkdirat(fd, "d", 0o700))
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		fd = next
	}
	require.NoError(t, unix.Close(fd))
}

// What a task has nested without end costs neither descriptors nor its slot, and is gone after a while; an agent that ends
// meanwhile does not wait for it.
func TestDeepPrivateDirectory(t *testing.T) {
	const depth = 60_000
	open := func() int {
		names, err := os.ReadDir("/dev/fd")
		require.NoError(t, err)
		return len(names)
	}
	in := memoryDir()
	if in == "" {
		in = t.TempDir()
	}
	s := dirs{parent: newParent(in), stays: func(_ string, err error) { t.Error(err) }}
	before := open()
	for range 2 {
		d, err := s.take(nil)
		require.NoError(t, err)
		nest(t, d.path, depth)
		began := time.Now()
		require.NoError(t, s.give(d))
		require.Less(t, time.Since(began), 10*removeSoon, "its slot does not wait")
	}
	require.LessOrEqual(t, open(), before+6, "however deep")
	until(t, "it is gone", func() bool {
		left, err := filepath.Glob(filepath.Join(s.parent, "*"))
		require.NoError(t, err)
		return len(left) == 0
	})
	s.removals.Wait()
	require.Equal(t, before, open())
	require.NoError(t, s.close())
	require.NoDirExists(t, s.parent)
}
