package sqlite

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/store"
)

// umask sets the process's umask until the test ends: such a test runs beside no other.
func umask(t *testing.T, mask int) {
	t.Helper()
	old := unix.Umask(mask)
	t.Cleanup(func() { unix.Umask(old) })
}

// modes are those of the three files while the store is open and written to.
func modes(t *testing.T, o Options) map[string]fs.FileMode {
	t.Helper()
	s, err := Open(t.Context(), o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = s.Migrator().Up(t.Context())
	require.NoError(t, err)
	_, _, err = s.Enqueue(t.Context(), store.EnqueueRequest{Type: "x"})
	require.NoError(t, err)
	found := map[string]fs.FileMode{}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Lstat(o.Path + suffix)
		require.NoError(t, err)
		found[suffix] = info.Mode()
	}
	return found
}

func allOf(mode fs.FileMode) map[string]fs.FileMode {
	return map[string]fs.FileMode{"": mode, "-wal": mode, "-shm": mode}
}

// anotherGroup is one that this user may give files to, and that new files do not have: root has any.
func anotherGroup(t *testing.T) (name string, gid int) {
	t.Helper()
	if os.Geteuid() == 0 {
		g, err := user.LookupGroupId("1")
		require.NoError(t, err)
		return g.Name, 1
	}
	groups, err := os.Getgroups()
	require.NoError(t, err)
	gid = os.Getegid()
	for _, g := range groups {
		if g != gid {
			gid = g
		}
	}
	return strconv.Itoa(gid), gid
}

// TestNoOtherUserReadsTheStore looks at the three files as another user of the host would, whatever the umask.
func TestNoOtherUserReadsTheStore(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o077, 0o777} {
		dir := t.TempDir()
		umask(t, mask)
		require.Equal(t, allOf(0o600), modes(t, Options{Path: filepath.Join(dir, "store.db"), Create: true}), "umask %o", mask)
	}
}

func TestTheStoreIsSharedWithAGroup(t *testing.T) {
	name, gid := anotherGroup(t)
	for _, mask := range []int{0, 0o022, 0o077} {
		for _, exists := range []bool{false, true} {
			dir := t.TempDir()
			path := filepath.Join(dir, "store.db")
			if exists {
				require.Equal(t, allOf(0o600), modes(t, Options{Path: path, Create: true}))
			}
			umask(t, mask)
			require.Equal(t, allOf(0o660), modes(t, Options{Path: path, Create: true, Group: name}), "umask %o", mask)
			s := open(t, Options{Path: path})
			for _, file := range s.files() {
				info, err := os.Stat(file)
				require.NoError(t, err)
				require.Equal(t, gid, groupOf(info), file)
				require.EqualValues(t, os.Geteuid(), info.Sys().(*syscall.Stat_t).Uid, file)
			}
			require.NoError(t, s.Close())
		}
	}
}

// TestTheGroupOfAWAL opens with a group a store that another agent, which knows of none, keeps open.
func TestTheGroupOfAWAL(t *testing.T) {
	name, _ := anotherGroup(t)
	path := filepath.Join(t.TempDir(), "store.db")
	first := openMigrated(t, path)
	require.Equal(t, allOf(0o660), modes(t, Options{Path: path, Create: true, Group: name}))
	_, _, err := first.Enqueue(t.Context(), store.EnqueueRequest{Type: "x"})
	require.NoError(t, err, "its locks are as they were")
}

func TestAccessIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	_, err := Open(t.Context(), Options{Path: path, Create: true, Group: "no-such-group"})
	require.ErrorContains(t, err, `store.group: this host has no group "no-such-group"`)
	require.NoFileExists(t, path)

	elsewhere := filepath.Join(dir, "elsewhere.db")
	require.NoError(t, os.Symlink(elsewhere, path))
	_, err = Open(t.Context(), Options{Path: path, Create: true})
	require.ErrorContains(t, err, "symbolic link to a file that does not exist")
	require.NoFileExists(t, elsewhere)

	// A link to a file that is there is followed, as ever, and the store is what it leads to.
	openMigrated(t, elsewhere)
	require.NoError(t, open(t, Options{Path: path}).Ping(t.Context()))
}

// TestPlantedFiles puts beside a shared store what a member of the group could put there to have another file's mode
// changed by an agent that runs as root.
func TestPlantedFiles(t *testing.T) {
	name, _ := anotherGroup(t)
	a, err := accessFor(name)
	require.NoError(t, err)
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(secret, nil, 0o600))
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "symbolic")))
	require.Error(t, a.apply(filepath.Join(dir, "symbolic")))
	require.NoError(t, os.Link(secret, filepath.Join(dir, "hard")))
	require.ErrorContains(t, a.apply(filepath.Join(dir, "hard")), "several names")
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	require.ErrorContains(t, a.apply(filepath.Join(dir, "fifo")), "not a regular file")
	info, err := os.Stat(secret)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
}

// TestOthersAreWarnedOf opens stores that other users may use.
func TestOthersAreWarnedOf(t *testing.T) {
	umask(t, 0o022)
	name, gid := anotherGroup(t)
	logged := func(o Options) string {
		var b bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&b, nil))
		s, err := Open(context.Background(), o)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		return b.String()
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	said := logged(Options{Path: path, Create: true})
	require.Contains(t, said, "other users of this host may use the store")
	require.Contains(t, said, "chmod 600 "+path)
	require.Empty(t, logged(Options{Path: path}), "commands say nothing of it")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o644), info.Mode(), "nothing is changed")

	require.NoError(t, os.Chmod(path, 0o600))
	require.Empty(t, logged(Options{Path: path, Create: true}))

	said = logged(Options{Path: path, Create: true, Group: name})
	require.Contains(t, said, "chmod 2770 "+dir)
	require.NoError(t, os.Chown(dir, -1, gid))
	require.NoError(t, os.Chmod(dir, 0o770|fs.ModeSetgid))
	require.Empty(t, logged(Options{Path: path, Create: true, Group: name}))
}
