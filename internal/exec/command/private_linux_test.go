package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A task of the agent's own user, which is not root, reads nothing of what the agent or its guardian process keeps: the
// environment has the password of the store.
func TestAgentIsHidden(t *testing.T) {
	a := act(t, part{User: ordinary(), Scripts: map[string]string{"spy": `echo $$ > pid.spy
for pid in $PPID $(pgrep -u $(id -u) lh-guardian); do
  for file in environ mem maps exe fd cwd; do
    case $file in
      exe|cwd) readlink /proc/$pid/$file ;;
      fd) ls /proc/$pid/fd ;;
      mem) (: < /proc/$pid/mem) ;;
      *) cat /proc/$pid/$file ;;
    esac > got 2>> errors && echo $pid $file >> read
  done
  echo $pid >> looked
done
cat /proc/self/environ > own && : > ready; exec sleep 1000`}})
	a.pids("spy")
	dir := filepath.Join(a.dir, "spy")
	looked, err := os.ReadFile(filepath.Join(dir, "looked"))
	require.NoError(t, err)
	require.Contains(t, string(looked), fmt.Sprintln(a.cmd.Process.Pid))
	require.Contains(t, string(looked), fmt.Sprintln(a.guardian), "it has its name, too")
	require.NoFileExists(t, filepath.Join(dir, "read"))
	own, err := os.ReadFile(filepath.Join(dir, "own"))
	require.NoError(t, err)
	require.Contains(t, string(own), "LEASEHOLD_RUN=", "what it starts is as ever")
	a.replaceGuardian() // its program is found all the same
}

// terminal makes a terminal, which is at no session yet.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

// A task has no terminal, also where its agent was started from one: it could type there what the agent's user is taken
// to have typed. It leads a session of its own, and its group.
func TestTaskHasNoTerminal(t *testing.T) {
	_, slave := terminal(t)
	a := act(t, part{Scripts: map[string]string{"spy": `echo $$ > pid.spy
cat /proc/$$/stat > stat
(: < /dev/tty) 2> error && echo shared > tty
: > ready; exec sleep 1000`}}, func(c *exec.Cmd) {
		c.ExtraFiles = []*os.File{slave}
		if c.SysProcAttr == nil {
			c.SysProcAttr = &syscall.SysProcAttr{}
		}
		c.SysProcAttr.Setsid, c.SysProcAttr.Setctty, c.SysProcAttr.Ctty = true, true, 3
	})
	pid := a.pids("spy")[0]
	dir := filepath.Join(a.dir, "spy")
	require.NoFileExists(t, filepath.Join(dir, "tty"))
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	require.NoError(t, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	require.Equal(t, []string{fmt.Sprint(pid), fmt.Sprint(pid), "0"}, fields[2:5], "group, session, terminal")
}
