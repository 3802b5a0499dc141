// Package command runs attempts as subprocesses: one process group each, of which nothing is left when an attempt is
// over (docs/protocol.md). A process is one thing here and the attempt that drives it another (docs/architecture.md).
//
// A process that leaves its group (setsid(2)) leaves an attempt that ends on its own: it is not stopped and not waited
// for, and its writes to the attempt's pipes fail once the attempt is over. An attempt that is stopped takes it along, by
// its cgroup or the mark in its environment, and so does the end of the agent (guard, guardian), while the attempt runs.
//
// The agent makes itself no subreaper: orphans go to init, as
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

// Options are what a Runner needs.
type Options struct {
	Log *slog.Logger
	// Guardian is the argument list that starts the guardian process (guardian.Self). While none is there, no command is
	// started. nil: there is none, and what an agent that dies has started lives on.
	Guardian []string
}

// Runner runs attempts. It is safe for use by many at once.
type Runner struct {
	spawner
	observer observer
	oom      *oomCounter
}

// New makes a runner. From now on nothing that the agent was started with, standard streams aside, is handed on to a
// process that it starts.
func New(o Options) *Runner { return newRunner(o, len(o.Guardian) > 0) }

func newRunner(o Options, cgroups bool) *Runner {
	r := &Runner{oom: newOOMCounter(cgroupEvents())}
	r.open(o.Log, o.Guardian, cgroups, lease.BootClock().Now)
	return r
}

// Presence says when the presence of the agent's session runs out, as a time of lease.BootClock: by then all is dead.
// It does not block.
func (r *Runner) Presence(until time.Duration) { r.presence(until) }

// Guard starts the guardian process, by that argument list, for a Runner that was made without one and has not run anything yet. Where
// there is one, or the list is empty, it does nothing.
func (r *Runner) Guard(argv []string) { r.protect(argv) }

// Close waits for what the ends of attempts have left to be done, removes what is kept on disk between them, and ends
// the guardian process. A process that SIGKILL did not end is not waited for long: the guardian process goes on with it.
func (r *Runner) Close() { r.close() }

// Run runs one attempt and returns how it ended. It calls started once the process runs. When it returns, the process
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
	a := &attempt{runner: r, lease: l, command: c, pings: pings{lease: l, log: r.log}}
	if err := a.start(call); err != nil {
		return notStarted(err)
	}
	started()
	defer r.observer.begin(l, a.process.pid, true)()
	return a.finish()
}
