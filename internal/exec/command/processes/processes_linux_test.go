package processes

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
)

// sleeper starts a process with that environment in a group of its own.
func sleeper(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	shown(t, cmd.Process.Pid)
	return cmd
}

// shown waits until a process that has just been started shows its arguments and environment. Exec closes the pipe that Start
// waits for before the kernel has set where these are: until then both are empty.
func shown(t *testing.T, pid int) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
		if len(Arguments(pid)) > 0 {
			return
		}
	}
	require.FailNow(t, "the process shows no arguments")
}

func signalled(t *testing.T, cmd *exec.Cmd) syscall.Signal {
	t.Helper()
	require.Error(t, cmd.Wait())
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	return status.Signal()
}

func TestKillByMark(t *testing.T) {
	r := NewRun()
	long := "LONG=" + strings.Repeat("x", 100_000) // pages of it
	one, two := sleeper(t, r.Mark(1)), sleeper(t, long, r.Mark(2), "B=2")
	two2 := sleeper(t, "A=1", r.Mark(2))
	other, plain := sleeper(t, NewRun().Mark(1)), sleeper(t)
	found, err := Kill(r, func(n uint64) bool { return n == 2 })
	require.NoError(t, err)
	require.Equal(t, map[uint64]int{2: 2}, found)
	require.Equal(t, syscall.SIGKILL, signalled(t, two))
	require.Equal(t, syscall.SIGKILL, signalled(t, two2))
	for _, cmd := range []*exec.Cmd{one, other, plain} {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.Equal(t, syscall.SIGTERM, signalled(t, cmd), "it was left alone")
	}
	found, err = Kill(r, func(uint64) bool { return true })
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestLivingGroups(t *testing.T) {
	living, dead := sleeper(t), sleeper(t)
	require.NoError(t, dead.Process.Kill())
	until := time.Now().Add(20 * time.Second)
	for { // it becomes a zombie, because its parent does not wait for it
		groups, err := LivingGroups()
		require.NoError(t, err)
		require.Contains(t, groups, living.Process.Pid)
		require.Contains(t, groups, syscall.Getpgrp())
		if _, lives := groups[dead.Process.Pid]; !lives {
			break
		}
		require.True(t, time.Now().Before(until))
	}
	require.NoError(t, syscall.Kill(-dead.Process.Pid, 0), "it is still there")
}

func TestStarted(t *testing.T) {
	clock := lease.BootClock()
	before := clock.Now()
	cmd := sleeper(t)
	after := clock.Now()
	at, ok := Started(cmd.Process.Pid)
	require.True(t, ok)
	const tick = 10 * time.Millisecond
	require.GreaterOrEqual(t, at, before-2*tick)
	require.LessOrEqual(t, at, after+tick)
	_, ok = Started(1 << 30)
	require.False(t, ok)
}

func TestStatOfAnyName(t *testing.T) {
	s, err := readStat(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, s.threads)
	require.Equal(t, syscall.Getpgrp(), s.group)
	require.False(t, s.dead())
	require.NoError(t, os.WriteFile("/proc/self/comm", []byte(") 1 Z 2 ("), 0o600))
	again, err := readStat(os.Getpid())
	require.NoError(t, err)
	require.Equal(t, s.group, again.group)
	require.Equal(t, s.started, again.started)
}

// Only what has those arguments, and one thread, is taken for a child on its way.
func TestHalfway(t *testing.T) {
	require.False(t, Halfway(nil))
	require.False(t, Halfway(Arguments(os.Getpid())), "a process of many threads")
	args := Arguments(sleeper(t).Process.Pid)
	require.True(t, Halfway(args))
	require.False(t, Halfway(args[:len(args)-1]), "other arguments")
	require.Empty(t, Arguments(1<<30))
}

// A child between fork and exec is as hidden as its agent, and a guardian process that is not root finds it all the same.
// A program that may not be read is hidden in the same way, and stays long enough to be looked at.
func TestHalfwayOfTheHidden(t *testing.T) {
	const ordinary = 65534 // the user id of an ordinary user
	if os.Geteuid() != 0 {
		return // it takes root to make a program that an ordinary user may run and not read
	}
	program, err := os.ReadFile("/bin/sleep")
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/tmp", "leasehold-test-") //nolint:usetesting // no other user can enter the test's own
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o711))
	path := filepath.Join(dir, "sleep")
	require.NoError(t, os.WriteFile(path, program, 0o700))
	require.NoError(t, os.Chmod(path, 0o711))
	cmd := exec.Command(path, "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pid := cmd.Process.Pid
	shown(t, pid)
	type view struct {
		environ  error
		halfway  bool
		switched syscall.Errno
	}
	seen := make(chan view)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with this goroutine, as it belongs to that user from here on
		var v view
		_, _, v.switched = syscall.RawSyscall(syscall.SYS_SETRESUID, ordinary, ordinary, ordinary)
		_, v.environ = os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		v.halfway = Halfway(Arguments(pid))
		seen <- v
	}()
	v := <-seen
	require.Zero(t, v.switched)
	require.ErrorIs(t, v.environ, os.ErrPermission)
	require.True(t, v.halfway)
}
