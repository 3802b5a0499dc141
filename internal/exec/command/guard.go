package command

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command/cgroup"
	"github.com/leasehold/leasehold/internal/exec/command/guardian"
	"github.com/leasehold/leasehold/internal/exec/command/processes"
	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/lease"
)

// guard sees to it that what an attempt has started does not outlive its lease, whatever becomes of the agent: the
// guardian process knows its group, its processes carry a mark, and where there can be one it has a cgroup.
type guard struct {
	log      *slog.Logger
	clock    lease.Clock
	run      processes.Run
	guardian *guardian.Guardian // nil: none is wanted
	cgroups  *cgroup.Tree
	seeker   seeker
	last     atomic.Uint64 // number of an attempt, where no guardian gives them
	forked   func()        // for tests: called between fork and telling the guardian process
}

// newGuard starts the guardian process, if argv says how, and has it remove dirs when the agent is gone. cgroups: they
// are used where that can be done.
func newGuard(log *slog.Logger, argv []string, dirs []string, cgroups bool) *guard {
	g := &guard{log: log, clock: lease.BootClock(), run: processes.NewRun()}
	g.seeker.run = g.run
	if cgroups {
		g.cgroups = cgroup.NewTree()
	}
	if len(argv) > 0 {
		g.guardian = guardian.Start(guardian.Options{
			Argv: argv, Run: g.run, Dirs: dirs, Cgroup: g.cgroups.Path(), Killed: g.cgroups.Retire, Log: log,
		})
	}
	return g
}

// close ends the guardian process.
func (g *guard) close() {
	if g.guardian != nil {
		g.guardian.Close()
	}
	g.cgroups.Close()
}

// hold is the guard of one attempt.
type hold struct {
	*guard
	number uint64
	group  *cgroup.Group
	from   time.Duration // local time from before the process was started
	until  time.Duration // local time from which on it must not be started any more
}

// errLate tells that no process was started, because it would have had to be dead already.
var errLate = errors.New("the agent was frozen until the lease was over")

// begin comes before the process is started. It fails where no guardian process is there. over has to follow.
func (g *guard) begin(l *lease.Lease) (h *hold, err error) {
	h = &hold{guard: g}
	// These come before the cgroup is taken: when the guardian process kills in all cgroups after this moment, it is too
	// late to start anything; when it did before, the cgroups of that time are retired.
	h.from = g.clock.Now()
	h.until = h.from + l.KillIn()
	if h.group, err = g.cgroups.Take(); err != nil {
		g.log.Warn("a command runs without its own cgroup", "err", err)
	}
	if g.guardian == nil {
		h.number = g.last.Add(1)
	} else if h.number, err = g.guardian.Begin(h.group.Number(), h.from+l.EndsIn()); err != nil {
		g.cgroups.Give(h.group)
		return nil, err
	}
	return h, nil
}

// fork starts a process in the attempt's cgroup. Where the kernel does not let it, there are none from now on.
func (h *hold) fork(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	if h.group != nil {
		inCgroup(attr.Sys, h.group)
	}
	if h.clock.Now() >= h.until { // last of all: whoever stands still after this is seen to by the guardian
		return 0, errLate
	}
	pid, err = syscall.ForkExec(path, argv, attr)
	if h.group == nil || !refusal(err) {
		return pid, err
	}
	outOfCgroup(attr.Sys)
	pid, again := syscall.ForkExec(path, argv, attr)
	if again == nil {
		if !h.cgroups.Drop(h.group) {
			h.log.Warn("commands run without their own cgroups", "err", err)
		}
		h.group = nil
	}
	return pid, again
}

// refusal reports whether a process may not have been started because of its cgroup. Most of these have other causes, too.
func refusal(err error) bool {
	switch err { //nolint:errorlint // what ForkExec returns is a bare Errno
	case syscall.EACCES, syscall.EPERM, syscall.EBUSY, syscall.EINVAL, syscall.ENODEV, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EBADF:
		return true
	}
	return false
}

// watch tells the guardian process of the group, and from now on when its lease moves.
func (h *hold) watch(pgid int, l *lease.Lease) {
	fault.Point("after a fork")
	if h.forked != nil {
		h.forked()
	}
	if h.guardian == nil {
		return
	}
	end := func() time.Duration { return h.clock.Now() + l.EndsIn() }
	l.OnMove(func() { h.guardian.Move(h.number, end()) })
	known := end()
	h.guardian.Watch(h.number, guardian.Group{
		ID: pgid, Cgroup: h.group.Number(), End: known, From: h.from, To: h.clock.Now(),
	})
	const same = time.Millisecond
	if now := end(); (now - known).Abs() > same { // it moved in between, and was not known to be there
		h.guardian.Move(h.number, now)
	}
}

// overdue reports whether the attempt's time had come before it was over, so that the guardian process has killed it.
func (h *hold) overdue() bool { return h.guardian != nil && h.guardian.Overdue(h.number) }

// clear kills what has left the group, again and again until nothing is found, for at most d.
func (h *hold) clear(d time.Duration) (gone bool) {
	if h.group == nil {
		return h.seeker.clear(h.number, d, h.log)
	}
	over := time.NewTimer(d)
	defer over.Stop()
	for pause := firstLook; !h.group.Empty(); pause = min(2*pause, lastLook) {
		h.group.Kill()
		look := time.NewTimer(pause)
		select {
		case <-look.C:
		case <-over.C:
			look.Stop()
			return h.group.Empty()
		}
	}
	return true
}

// over says that nothing is left of the attempt but what left it on purpose, or that it never started.
func (h *hold) over() {
	// The guardian process hears of it before another attempt can get the cgroup.
	if h.guardian != nil && h.guardian.Over(h.number) {
		h.group.Spoil()
	}
	h.cgroups.Give(h.group)
}
