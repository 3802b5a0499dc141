package command

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/command/processes"
)

// How often a group is looked at whose leader has ended. Nothing reports the end of other people's children.
const (
	firstLook = time.Millisecond
	lastLook  = 20 * time.Millisecond
)

// The group's number is the leader's process id. It stays taken while the leader has not been reaped or anything of
// the group is left, and the kernel hands out process ids in turn, so a signal that follows the end within moments
// meets the group or no process.

// signal sends the stop signal to the whole group, and wakes what is stopped so that it gets it.
func (p *process) signal(s syscall.Signal) {
	if s == 0 {
		s = unix.SIGTERM
	}
	_ = unix.Kill(-p.pid, s)
	_ = unix.Kill(-p.pid, unix.SIGCONT)
}

// gone reports whether leader and group have ended.
func (p *process) gone() bool { return p.ended() && p.groupGone() }

// groupGone is what reports whether nothing lives in the group, once the leader has been reaped.
func (p *process) groupGone() bool {
	if gone := p.shared.gone; gone != nil {
		return gone(p.pid)
	}
	return groupGone(p.pid)
}

// awaitGone waits until leader and group have ended, for at most d.
func (p *process) awaitGone(d time.Duration) bool {
	return p.await(d, func() {})
}

// kill kills the group, again and again until it is gone, for at most d.
func (p *process) kill(d time.Duration) bool {
	kill := func() { _ = unix.Kill(-p.pid, unix.SIGKILL) }
	kill()
	return p.await(d, kill)
}

// await waits until the group is gone, for at most d, and calls meanwhile whenever it looked and it was not.
func (p *process) await(d time.Duration, meanwhile func()) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	if !p.ended() { // else it may be over, too
		select {
		case <-p.exited:
		case <-over.C:
			return false
		}
	}
	for pause := firstLook; !p.groupGone(); pause = min(2*pause, lastLook) {
		meanwhile()
		look := time.NewTimer(pause)
		select {
		case <-look.C:
		case <-over.C:
			look.Stop()
			return p.groupGone()
		}
	}
	return true
}

// groupGone reports whether nothing lives in a group whose leader has been reaped. What has died and was orphaned to
// this very process (the agent as process 1) is reaped; what another process has not reaped yet is dead all the same.
func groupGone(pgid int) bool {
	if errors.Is(unix.Kill(-pgid, 0), unix.ESRCH) {
		return true
	}
	for {
		pid, err := unix.Wait4(-pgid, nil, unix.WNOHANG, nil)
		if err != nil && !errors.Is(err, unix.EINTR) || err == nil && pid == 0 {
			break
		}
	}
	if errors.Is(unix.Kill(-pgid, 0), unix.ESRCH) {
		return true
	}
	return processes.OnlyZombies(pgid)
}
