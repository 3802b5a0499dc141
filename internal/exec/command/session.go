package command

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// apart has a process lead a group of its own, whose number is its own, too. In the session of an agent with a terminal it
// could type there what the agent's user is taken to have typed (TIOCSTI in ioctl_tty(2)), as another user as well: so it
// leads a session of its own, which has no terminal. A process of another user does that always. Not all do, because the
// kernel schedules each session as a group of its own (sched_autogroup in sched(7)), and to make one of these costs a
// fifth of a spawn of /bin/true; and an agent without a terminal opens none later.
func apart(as *syscall.Credential, terminal bool) *syscall.SysProcAttr {
	if as != nil || terminal {
		return &syscall.SysProcAttr{Setsid: true, Credential: as} // Setpgid beside it is an error
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// hasTerminal reports whether this process has a controlling terminal, or may have one that cannot be opened now.
func hasTerminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err == nil {
		_ = tty.Close()
	}
	return !errors.Is(err, unix.ENXIO)
}
