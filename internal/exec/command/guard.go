package command

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command/cgroup"
	"github.com/leasehold/leasehold/internal/exec/command/guardian"
	"github.com/leasehold/leasehold/internal/exec/command/processes"
	"github.com/leasehold/leasehold/internal/fault"
)

// guard sees to it that no process outlives its window, whatever becomes of the agent: the guardian process knows its
// group, all of it carries a mark, and where there can be one it has a cgroup.
type guard struct {
	log      *slog.Logger
	now      func() time.Duration // local time
	run      processes.Run
	guardian *guardian.Guardian // nil: none is wanted
	cgroups  *cgroup.Tree
	seeker   seeker
	last     atomic.Uint64 // number of a process, where no guardian gives them
	forked   func()        // for tests: called between fork and the record to the guardian process
}

// newGuard starts the guardian process, if argv says how, and has it remove dirs when the agent is gone. cgroups: they
// are used where that can be done.
func newGuard(log *slog.Logger, argv []string, dirs []string, cgroups bool, now func() time.Duration) *guard {
	g := &guard{log: log, now: now, run: processes.NewRun()}
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

// presence says until when, in local time, any process may live.
func (g *guard) presence(until time.Duration) {
	if g.guardian != nil {
		g.guardian.Presence(until)
	}
}

// window is how long a process may live, in local time.
type window struct {
	from  time.Duration // from before the process was started
	until time.Duration // from then on it must not be started any more
	end   time.Duration // it must be dead
}

// hold is the guard of one process.
type hold struct {
	*guard
	number uint64
	group  *cgroup.Group
	window window // until and from as the process began; end moves with the lease, under mu

	mu sync.Mutex // held while the guardian process is sent the window's new end
}

// errLate says that no process was started, because it would have had to be dead already.
var errLate = errors.New("the agent was frozen until the lease was over")

// begin comes before the process is started, with a window that was read before it. It fails where no guardian process
// is there. over has to follow.
func (g *guard) begin(w window) (h *hold, err error) {
	// The window comes before the cgroup is taken: when the guardian process kills in all cgroups after its from, it is too
	// late to start anything; when it did before, the cgroups of that time are retired.
	h = &hold{guard: g, window: w}
	if h.group, err = g.cgroups.Take(); err != nil {
		g.log.Warn("a command runs without its own cgroup", "err", err)
	}
	if g.guardian == nil {
		h.number = g.last.Add(1)
	} else if h.number, err = g.guardian.Begin(h.group.Number(), w.end); err != nil {
		g.cgroups.Give(h.group)
		return nil, err
	}
	return h, nil
}

// fork starts the process in its cgroup. Where the kernel does not let it, there are none from now on.
func (h *hold) fork(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	if h.group != nil {
		inCgroup(attr.Sys, h.group)
	}
	if h.now() >= h.window.until { // last of all: the guardian sees to an agent that stands still after this
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

// watch has the guardian process know the group.
func (h *hold) watch(pgid int) {
	fault.Point("after a fork")
	if h.forked != nil {
		h.forked()
	}
	if h.guardian != nil {
		h.guardian.Watch(h.number, guardian.Group{
			ID: pgid, Cgroup: h.group.Number(), End: h.window.end, From: h.window.from, To: h.now(),
		})
	}
}

// move has the guardian process know that the window ends elsewhere now, unless that is so already. Of calls at the same
// time the last one is right, since end is asked here.
func (h *hold) move(end func() time.Duration) {
	const same = time.Millisecond
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := end(); (now - h.window.end).Abs() > same {
		h.window.end = now
		h.guardian.Move(h.number, now)
	}
}

// overdue reports whether the window had ended before the process was gone, so that the guardian process has killed it.
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

// over says that nothing is left of the process but what left its group on purpose, or that it never started.
func (h *hold) over() {
	// The guardian process gets the record before another process can get the cgroup.
	if h.guardian != nil && h.guardian.Over(h.number) {
		h.group.Spoil()
	}
	h.cgroups.Give(h.group)
}
