package command

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// ordinary is the user that an agent runs as which is not root; 0 where the test is not root and is such a user itself.
func ordinary() uint32 {
	const ordinary = 65534 // the user id of an ordinary user
	if os.Geteuid() != 0 {
		return 0
	}
	return ordinary
}

// home is a place that an agent of another user can enter, as it cannot a test's own directories, with directories
// that are that user's.
type home struct {
	t    *testing.T
	path string
	user uint32 // 0: the test's own
}

func newHome(t *testing.T, user uint32) *home {
	t.Helper()
	h := &home{t: t, path: t.TempDir(), user: user}
	if user == 0 {
		return h
	}
	var err error
	h.path, err = os.MkdirTemp("/tmp", "leasehold-test-") //nolint:usetesting // no other user can enter the test's own
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(h.path)) })
	require.NoError(t, os.Chmod(h.path, 0o755))
	return h
}

// dir makes a directory.
func (h *home) dir(name string) string {
	h.t.Helper()
	path := filepath.Join(h.path, name)
	require.NoError(h.t, os.Mkdir(path, 0o700))
	if h.user != 0 {
		require.NoError(h.t, os.Chown(path, int(h.user), int(h.user)))
	}
	return path
}

// program is the test binary, or a copy of it where its user cannot enter the directory that it is in.
func (h *home) program() string {
	h.t.Helper()
	if h.user == 0 {
		return os.Args[0]
	}
	from, err := os.Open("/proc/self/exe")
	require.NoError(h.t, err)
	defer func() { require.NoError(h.t, from.Close()) }()
	path := filepath.Join(h.path, "agent")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(h.t, err)
	_, err = io.Copy(to, from)
	require.NoError(h.t, err)
	require.NoError(h.t, to.Close())
	return path
}
