// Package command runs attempts as subprocesses: one process group each, of which nothing is left when an attempt is
// over (docs/protocol.md).
//
// A process that leaves its group (setsid(2)) leaves an attempt that ends by itself: it is not stopped and not waited
// for, and its writes to the attempt's pipes fail once the attempt is over. An attempt that is stopped takes it along, by
// its cgroup or the mark in its environment, and so does the end of the agent (guard, guardian), while the attempt runs.
//
// The agent makes itself no subreaper: orphans go to init, as
// everywhere; where the agent is process 1 itself, those of the group are reaped here, and those that left it need an
// init (docker run --init). Pdeathsig is not used, because it fires when a *thread* of the agent ends (golang/go#27505).
package command

import (
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/exec/envelope"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// Times that no declaration changes.
const (
	orphanGrace = time.Second     // for what a leader that has ended left behind in its group
	killFor     = 3 * time.Second // for a killed group to be gone
)

// Options are what a Runner needs.
type Options struct {
	Log *slog.Logger
	// Guardian is the argument list that starts the guardian process (guardian.Self). While none is there, no command is
	// started. nil: there is none, and what an agent that dies has started lives on.
	Guardian []string
}

// Runner runs attempts. It is safe for use by many at once.
type Runner struct {
	log     *slog.Logger
	oom     *oomCounter
	dirs    dirs
	shared  shared
	guard   *guard
	closing chan struct{}

	sockets  sockets
	longPath sync.Once // it has been said that there are no notify sockets
}

// New makes a runner. From now on nothing that the agent was started with, standard streams aside, is handed on to a
// process that it starts.
func New(o Options) *Runner { return newRunner(o, len(o.Guardian) > 0) }

func newRunner(o Options, cgroups bool) *Runner {
	keepDescriptors()
	r := &Runner{log: o.Log, oom: newOOMCounter(cgroupEvents()), closing: make(chan struct{})}
	r.shared.terminal = hasTerminal()
	r.dirs.parent, r.sockets.parent = newParent(os.TempDir()), socketParent()
	r.dirs.stays = func(path string, err error) {
		o.Log.Warn("cannot remove a private directory", "directory", path, "err", err)
	}
	r.guard = newGuard(o.Log, o.Guardian, []string{r.dirs.parent, r.sockets.parent}, cgroups)
	return r
}

// Presence says when the presence of the agent's session runs out, as a time of lease.BootClock: by then all is dead.
// It does not block.
func (r *Runner) Presence(until time.Duration) {
	if r.guard.guardian != nil {
		r.guard.guardian.Presence(until)
	}
}

// Close waits for what the ends of attempts have left to be done, removes what is kept on disk between them, and ends
// the guardian process. A process that SIGKILL did not end is not waited for long: the guardian process goes on with it.
func (r *Runner) Close() {
	close(r.closing)
	over := make(chan struct{})
	go func() {
		r.shared.stuck.Wait()
		r.shared.running.Wait()
		r.guard.seeker.looks.Wait()
		close(over)
	}()
	late := time.NewTimer(killFor)
	defer late.Stop()
	select {
	case <-over:
	case <-late.C:
		r.log.Error("a process did not end; the agent exits without it")
	}
	if err := r.dirs.close(); err != nil {
		r.log.Warn("cannot remove private directories of tasks", "err", err)
	}
	if err := r.sockets.close(); err != nil {
		r.log.Warn("cannot remove directories of notify sockets", "err", err)
	}
	r.guard.close()
}

// Run runs one attempt and says how it ended. It calls started once the process runs. When it returns, the process
// group is empty; should the kernel not let a process die, it returns all the same, says so, and calls the end unknown.
func (r *Runner) Run(l *lease.Lease, t *task.Type, c *task.Command, started func()) task.Outcome {
	if err := l.Context().Err(); err != nil {
		o := cause(l).Outcome()
		o.NeverStarted = true
		return o
	}
	e := envelope.Of(l, t)
	call, err := prepare(&e, t, c)
	if err != nil {
		return notStarted(err)
	}
	dir, err := r.dirs.take(call.credential)
	if err != nil {
		return notStarted(err)
	}
	giveBack := func() {
		if err := r.dirs.give(dir); err != nil {
			r.log.Warn("cannot remove a private directory", "task", e.Task.ID, "directory", dir.path, "err", err)
		}
	}
	says, err := r.openPings(l, call)
	if err != nil {
		giveBack()
		return notStarted(err)
	}
	h, err := r.guard.begin(l)
	if err != nil {
		says.close()
		giveBack()
		return notStarted(err)
	}
	over := func() {
		h.over()
		giveBack()
	}
	call.env = append(call.env, "LEASEHOLD_RESULT_FILE="+dir.resultPath(), h.run.Mark(h.number))
	l.Start()
	p, err := start(call, &r.shared, h, says)
	if err != nil {
		says.close()
		over()
		return notStarted(err)
	}
	h.watch(p.pid, l)
	started()
	end := r.supervise(l, c, p)
	if end.exit.signal == syscall.SIGKILL {
		h.group.Spoil()
	}
	says.close()
	o := r.outcome(c, dir, end)
	if o.Verdict == task.Stalled {
		o.Error += says.complaint()
	}
	if end.gone {
		over()
	} else {
		o.Stuck = r.quarantine(l, p, end.stopped != nil, over)
	}
	return o
}

// ending is how a process ended.
type ending struct {
	exit    exitStatus
	lived   time.Duration // of the leader
	stopped *lease.Cause  // why it was told to stop; nil: it ended on its own
	gone    bool          // nothing is left of its group
	output  string
}

// supervise waits until the process has ended or must, and leaves nothing of its group.
func (r *Runner) supervise(l *lease.Lease, c *task.Command, p *process) ending {
	end := ending{gone: true}
	grace := min(c.StopGrace, orphanGrace)
	select {
	case <-p.exited:
	case <-l.Context().Done():
		if !p.ended() {
			end.stopped, grace = cause(l), c.StopGrace
		}
	}
	if !p.gone() {
		p.signal(c.StopSignal)
		end.gone = p.awaitGone(min(grace, l.KillIn())) || p.kill(killFor)
	}
	if end.stopped != nil { // what left the group has no leave to go on
		end.gone = p.hold.clear(killFor) && end.gone
	}
	end.output = p.finish()
	end.exit = p.status()
	if p.ended() {
		end.lived = p.lived
	}
	if end.stopped == nil && end.exit.signal == syscall.SIGKILL && p.hold.overdue() {
		end.stopped = l.Cause()
		if end.stopped == nil {
			end.stopped = &lease.Cause{Verdict: task.Drained, Reason: "the agent was frozen until the lease was over"}
		}
	}
	return end
}

// cause is why the lease ended.
func cause(l *lease.Lease) *lease.Cause {
	if c := l.Cause(); c != nil {
		return c
	}
	return &lease.Cause{Verdict: task.Drained, Reason: "the agent is stopping"}
}
