package processes

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/store"
)

const partVariable = "LEASEHOLD_TEST_PART"

func TestMain(m *testing.M) {
	if os.Getenv(partVariable) == "stuck" {
		stuck()
	}
	os.Exit(m.Run())
}

// The main thread is the one whose state a process shows, and only here is it sure to be this one.
func init() { runtime.LockOSThread() } //nolint:gochecknoinits // see above

// stuck waits, as on a disk that does not answer, where no signal but SIGKILL wakes it: for the end of a child as vfork(2) has it.
func stuck() {
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, syscall.CLONE_VFORK|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	for pid == 0 { // the child: it sleeps until it is killed
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
	os.Exit(1)
}

// started starts a process in a group of its own, and kills that at the end.
func started(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// until looks at a process until it does what is wanted.
func until(t *testing.T, pid int, want func(Doing) bool) {
	t.Helper()
	var last Doing
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		if d, ok := Look(pid, 32); ok {
			if last = d; want(d) {
				return
			}
		}
	}
	require.FailNow(t, "it never does that", "%+v", last)
}

func TestWhatProcessesDo(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	stuck := exec.Command(self)
	stuck.Env = []string{partVariable + "=stuck"}
	stopped := started(t, exec.Command("sleep", "1000"))
	require.NoError(t, unix.Kill(stopped, unix.SIGSTOP))
	dead := started(t, exec.Command("true"))
	for name, c := range map[string]struct {
		pid  int
		want store.ProcessState
		busy bool
		n    int
	}{
		"sleeps":              {started(t, exec.Command("sleep", "1000")), store.ProcessSleeping, false, 1},
		"a descendant sleeps": {started(t, exec.Command("sh", "-c", "sh -c 'sleep 1000; :'; :")), store.ProcessSleeping, false, 3},
		"computes":            {started(t, exec.Command("sh", "-c", "while :; do :; done")), store.ProcessRunning, true, 1},
		"a descendant does":   {started(t, exec.Command("sh", "-c", "sh -c 'while :; do :; done'; :")), store.ProcessRunning, true, 2},
		"was stopped":         {stopped, store.ProcessStopped, false, 1},
		"waits for a device":  {started(t, stuck), store.ProcessDisk, false, 2},
		"has ended":           {dead, store.ProcessEnded, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			until(t, c.pid, func(d Doing) bool {
				return d.State == c.want && d.Count == c.n && (!c.busy || d.CPU >= 50*time.Millisecond)
			})
		})
	}
}

func TestLookIsBounded(t *testing.T) {
	pid := started(t, exec.Command("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; wait"))
	until(t, pid, func(d Doing) bool { return d.Count == 10 })
	until(t, os.Getpid(), func(d Doing) bool { return d.Count == 11 }) // whichever thread has started it
	d, ok := Look(pid, 4)
	require.True(t, ok)
	require.Equal(t, 4, d.Count)
	_, ok = Look(1<<30, 4)
	require.False(t, ok)
}
