package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/command/processes"
	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"
)

// awaitState looks until the process is in that state.
func awaitState(t *testing.T, pid int, want byte) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err == nil && stat[bytes.LastIndexByte(stat, ')')+2] == want {
			return
		}
	}
	t.Errorf("process %d never was in state %c", pid, want)
}

func TestStoppedProcessIsWokenToStop(t *testing.T) {
	s := newScene(t, exectest.Attempt{})
	o := s.run(`trap 'echo woken; exit 1' TERM; echo $$ > ready; kill -STOP $$; while :; do sleep 0.01; done`, nil,
		func(line string) {
			awaitState(t, atoi(line), 'T')
			s.stop(task.Cancelled)("")
		})
	require.Equal(t, task.Outcome{Verdict: task.Cancelled, Error: "why", Output: "woken\n"}, o)
}

// The documented limit: what leaves its process group leaves the attempt. It hangs nothing.
func TestSessionOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	c := shell(`setsid sh -c 'echo $$ > pid.new; mv pid.new pid; echo escaped; exec sleep 1000' & while [ ! -e pid ]; do sleep 0.01; done`)
	c.Dir = dir
	began := time.Now()
	o := run(t, exectest.Attempt{}, c)
	require.Equal(t, task.Succeeded, o.Verdict)
	require.Less(t, time.Since(began), 30*time.Second)
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	require.NoError(t, err)
	pid := atoi(strings.TrimSpace(string(text)))
	require.NoError(t, unix.Kill(pid, 0), "it lives")
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
}

// What left the group and goes on printing into the attempt's pipe is cut off.
func TestSessionOfItsOwnThatPrints(t *testing.T) {
	dir := t.TempDir()
	c := shell(`setsid sh -c 'echo $$ > pid.new; mv pid.new pid; exec yes' & while [ ! -e pid ]; do sleep 0.01; done`)
	c.Dir = dir
	o := run(t, exectest.Attempt{}, c)
	require.Equal(t, task.Succeeded, o.Verdict)
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	require.NoError(t, err)
	pid := atoi(strings.TrimSpace(string(text)))
	for deadline := time.Now().Add(30 * time.Second); unix.Kill(pid, 0) == nil; {
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if i := bytes.LastIndexByte(stat, ')'); i < 0 || stat[i+2] == 'Z' {
			break
		}
		require.True(t, time.Now().Before(deadline), "its writes fail, which ends it")
	}
}

// A group of which only zombies are left is gone: their parent may never look.
func TestZombiesAreDead(t *testing.T) {
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), helperVariable+"=zombie")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	in, err := parent.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	var pid int
	_, err = fmt.Fscan(out, &pid)
	require.NoError(t, err)
	awaitState(t, pid, 'Z')
	require.NoError(t, unix.Kill(-pid, 0), "the group is still there")
	require.True(t, groupGone(pid), "and nothing of it lives")
	require.False(t, processes.OnlyZombies(unix.Getpgrp()), "as here something does")
	require.NoError(t, in.Close())
	require.NoError(t, parent.Wait())
}

// Where the agent is process 1, the group's orphans are its children: it reaps them.
func TestAdoptedOrphansAreReaped(t *testing.T) {
	child := exec.CommandContext(t.Context(), "true")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, child.Start())
	awaitState(t, child.Process.Pid, 'Z')
	require.True(t, groupGone(child.Process.Pid))
	require.ErrorIs(t, unix.Kill(child.Process.Pid, 0), unix.ESRCH)
	require.Error(t, child.Wait(), "reaped already")
}

// A descriptor that the agent itself inherited is not handed on.
func TestDescriptorsAreNotInherited(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	fd, err := unix.Dup(int(w.Fd())) // without close-on-exec, as if inherited
	require.NoError(t, err)
	defer unix.Close(fd)
	o := run(t, exectest.Attempt{}, shell("ls /proc/self/fd | wc -l"))
	require.Equal(t, "5\n", o.Output, "standard input, output, error, the pings' pipe, and the directory that ls reads")
}
