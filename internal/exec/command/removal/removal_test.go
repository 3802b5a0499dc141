package removal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("LEASEHOLD_TEST_REMOVE"); path != "" { // as another user
		if err := All(path, never); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func never() bool { return false }

// deep makes a chain of directories, which no path reaches the end of.
func deep(t *testing.T, path string, depth int) {
	t.Helper()
	require.NoError(t, os.Mkdir(path, 0o700))
	fd, err := unix.Open(path, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	name := strings.Repeat("d", 200)
	for range depth {
		require.NoError(t, unix.Mkdirat(fd, name, 0o700))
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		fd = next
	}
	require.NoError(t, unix.Close(fd))
}

// memory is a directory in memory where there is one: disks take a millisecond to remove a directory.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "leasehold-test-") //nolint:usetesting // it is to be in memory
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, All(dir, never)) })
	return dir
}

// descriptors counts those that are open.
func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/dev/fd")
	require.NoError(t, err)
	return len(names)
}

func TestDeep(t *testing.T) {
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	low := limit
	low.Cur = 64
	path := filepath.Join(memory(t), "deep")
	deep(t, path, 60_000)
	before := descriptors(t)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	began := time.Now()
	err := All(path, never)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	require.NoError(t, err)
	t.Logf("60,000 levels in %s", time.Since(began).Round(time.Millisecond))
	require.NoDirExists(t, path)
	require.Equal(t, before, descriptors(t))
}

func TestWideAndMixed(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	require.NoError(t, os.Mkdir(outside, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600))
	path := filepath.Join(dir, "top")
	for n := range 50 {
		below := filepath.Join(path, fmt.Sprint(n), "b", "c")
		require.NoError(t, os.MkdirAll(below, 0o700))
		for m := range 50 {
			require.NoError(t, os.WriteFile(filepath.Join(path, fmt.Sprint(n), fmt.Sprint(m)), []byte("x"), 0o400))
		}
		require.NoError(t, os.Symlink(outside, filepath.Join(below, "link")))
		require.NoError(t, os.Symlink(outside, filepath.Join(path, fmt.Sprint(n), "link")))
		require.NoError(t, unix.Mkfifo(filepath.Join(below, "fifo"), 0o600))
	}
	for n := range 2000 {
		require.NoError(t, os.WriteFile(filepath.Join(path, fmt.Sprint("file", n)), nil, 0o600))
	}
	require.NoError(t, All(path, never))
	require.NoDirExists(t, path)
	require.FileExists(t, filepath.Join(outside, "kept"))

	require.NoError(t, All(path, never), "it is gone")
	require.NoError(t, os.Symlink(outside, path))
	require.NoError(t, All(path, never), "a link is removed, and not followed")
	require.FileExists(t, filepath.Join(outside, "kept"))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, All(path, never))
	require.NoFileExists(t, path)
}

func TestStops(t *testing.T) {
	path := filepath.Join(memory(t), "deep")
	deep(t, path, 1000)
	asked := 0
	require.ErrorIs(t, All(path, func() bool { asked++; return asked > 100 }), ErrStopped)
	require.DirExists(t, path)
	require.NoError(t, All(path, never), "it goes on where it was")
	require.NoDirExists(t, path)
}

// A directory that its owner made unreadable is opened; a short error names what cannot be removed.
func TestOrdinaryUser(t *testing.T) {
	const ordinary = 65534 // the user id of an ordinary user
	if os.Geteuid() != 0 {
		return // it takes root to become another user, and root needs no permissions
	}
	dir, err := os.MkdirTemp("/tmp", "leasehold-test-") //nolint:usetesting // no other user can enter the test's own
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	program, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	self := filepath.Join(dir, "self")
	require.NoError(t, os.WriteFile(self, program, 0o755))
	as := func(path string) (string, error) {
		cmd := exec.Command(self)
		cmd.Env = []string{"LEASEHOLD_TEST_REMOVE=" + path}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
		out, err := cmd.Output()
		return string(out), err
	}
	path := filepath.Join(dir, "closed")
	require.NoError(t, os.MkdirAll(filepath.Join(path, "a", "b", "c", "d"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(path, "a", "b", "file"), nil, 0))
	require.NoError(t, filepath.WalkDir(path, func(p string, _ os.DirEntry, _ error) error { return os.Chown(p, ordinary, ordinary) }))
	for _, p := range []string{"a/b/c", "a/b", "a"} {
		require.NoError(t, os.Chmod(filepath.Join(path, p), 0))
	}
	out, err := as(path)
	require.NoError(t, err, out)
	require.NoDirExists(t, path)

	require.NoError(t, os.MkdirAll(filepath.Join(path, strings.Repeat("x", 200), strings.Repeat("y", 200), "z"), 0o755))
	out, err = as(path)
	require.Error(t, err)
	require.NotEmpty(t, out)
	require.Less(t, len(out), 100, out)
}
