// Package command runs attempts as subprocesses: one process group each, of which nothing is left when an attempt is
// over (docs/protocol.md).
//
// A process that leaves its group (setsid(2)) leaves the attempt: it is not stopped and not waited for, and its writes
// to the attempt's pipes fail once the attempt is over. The agent makes itself no subreaper: orphans go to init, as
// everywhere; where the agent is process 1 itself, those of the group are reaped here, and those that left it need an
// init (docker run --init). Pdeathsig is not used, because it fires when a *thread* of the agent ends (golang/go#27505).
package command

import (
	"log/slog"
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
}

// Runner runs attempts. It is safe for use by many at once.
type Runner struct {
	log    *slog.Logger
	oom    *oomCounter
	dirs   dirs
	shared shared
}

// New makes a runner. From now on nothing that the agent was started with, standard streams aside, is handed on to a
// process that it starts.
func New(o Options) *Runner {
	keepDescriptors()
	return &Runner{log: o.Log, oom: newOOMCounter(cgroupEvents())}
}

// Close waits for what the ends of attempts have left to be done, and removes what is kept on disk between them. A
// process that SIGKILL did not end is not waited for long.
func (r *Runner) Close() {
	over := make(chan struct{})
	go func() {
		r.shared.running.Wait()
		close(over)
	}()
	late := time.NewTimer(killFor)
	defer late.Stop()
	select {
	case <-over:
	case <-late.C:
		r.log.Error("a process did not end, and the agent does not wait for it")
	}
	if err := r.dirs.close(); err != nil {
		r.log.Warn("private directories of tasks are left behind", "err", err)
	}
}

// Run runs one attempt and says how it ended. It calls started once the process runs. When it returns, the process
// group is empty; should the kernel not let a process die, it returns all the same, says so, and calls the end unknown.
func (r *Runner) Run(l *lease.Lease, t *task.Type, c *task.Command, started func()) task.Outcome {
	if err := l.Context().Err(); err != nil {
		o := cause(l).Outcome()
		o.Untouched = true
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
	defer func() {
		if err := r.dirs.give(dir); err != nil {
			r.log.Warn("a private directory is left behind", "task", e.Task.ID, "directory", dir.path, "err", err)
		}
	}()
	call.env = append(call.env, "LEASEHOLD_RESULT_FILE="+dir.resultPath())
	l.Start()
	p, err := start(call, &r.shared)
	if err != nil {
		return notStarted(err)
	}
	started()
	end := r.supervise(l, c, p)
	return r.outcome(c, dir, end)
}

// ending is how a process ended.
type ending struct {
	exit    exitStatus
	stopped *lease.Cause // why it was told to stop; nil: it ended by itself
	gone    bool         // nothing is left of its group
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
	if !end.gone {
		row := l.Task()
		r.log.Error("processes are still there after SIGKILL", "task", row.ID, "type", row.Type, "fence", row.Fence, "group", p.pid)
	}
	end.output = p.finish()
	end.exit = p.status()
	return end
}

// cause is why the lease ended.
func cause(l *lease.Lease) *lease.Cause {
	if c := l.Cause(); c != nil {
		return c
	}
	return &lease.Cause{Verdict: task.Drained, Reason: "the agent stops"}
}
