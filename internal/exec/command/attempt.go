package command

import (
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// Times that no declaration changes.
const (
	orphanGrace = time.Second     // for what a leader that has ended left behind in its group
	killFor     = 3 * time.Second // for a killed group to be gone
)

// attempt is one run of a row by a process. It turns the end of the lease into a stop of the process, what the process
// reports into pings of the lease, and the end of the process into an outcome.
type attempt struct {
	runner  *Runner
	lease   *lease.Lease
	command *task.Command
	pings   pings
	process *process
}

// start starts the process. After an error there is none, and nothing is left of it.
func (a *attempt) start(k *call) (err error) {
	now := a.runner.guard.now()
	w := window{from: now, until: now + a.lease.KillIn(), end: now + a.lease.EndsIn()}
	if a.process, err = a.runner.ready(k, w, &a.pings); err == nil {
		a.lease.Start()
		err = a.process.start()
	}
	if err != nil {
		a.release()
		return err
	}
	if h := a.process.hold; h.guardian != nil {
		end := func() time.Duration { return h.now() + a.lease.EndsIn() }
		a.lease.OnMove(func() { h.move(end) })
		h.move(end) // it may have moved in between
	}
	return nil
}

// release gives up what the process had, once nothing is left of it.
func (a *attempt) release() {
	if err := a.process.release(); err != nil {
		a.runner.log.Warn("cannot remove a private directory",
			"task", a.lease.Task().ID, "directory", a.process.dir.path, "err", err)
	}
}

// ending is how a process ended.
type ending struct {
	exit    exitStatus
	lived   time.Duration // of the leader
	stopped *lease.Cause  // why it was stopped; nil: it ended on its own
	gone    bool          // nothing is left of its group
	output  string
}

// finish waits for the end of the attempt and returns its outcome. Nothing is left of the process then, or the outcome
// says that something is (Outcome.Stuck).
func (a *attempt) finish() task.Outcome {
	end := a.supervise()
	o := a.outcome(end)
	if o.Verdict == task.Stalled {
		o.Error += a.pings.refused.String()
	}
	if end.gone {
		a.release()
	} else {
		o.Stuck = a.quarantine(end.stopped != nil)
	}
	return o
}

// supervise waits until the process has ended or must, and leaves nothing of its group.
func (a *attempt) supervise() ending {
	p, l := a.process, a.lease
	end := ending{gone: true}
	grace := min(a.command.StopGrace, orphanGrace)
	select {
	case <-p.exited:
	case <-l.Context().Done():
		if !p.ended() {
			end.stopped, grace = cause(l), a.command.StopGrace
		}
	}
	if !p.gone() {
		p.signal(a.command.StopSignal)
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

// quarantine keeps what belongs to an attempt whose processes SIGKILL did not end, until it has: its directory, its
// cgroup, and by the channel that it returns, its slot.
func (a *attempt) quarantine(stopped bool) <-chan struct{} {
	row, began, p, log := a.lease.Task(), time.Now(), a.process, a.runner.log
	log.Error("processes did not die of SIGKILL; their slot is not used until they are gone",
		"task", row.ID, "type", row.Type, "fence", row.Fence, "group", p.pid)
	gone := make(chan struct{})
	p.killUntilGone(stopped, func() {
		log.Info("processes that did not die of SIGKILL are gone", "task", row.ID, "type", row.Type, "fence", row.Fence,
			"group", p.pid, "after", time.Since(began).Round(time.Second))
		a.release()
		close(gone)
	})
	return gone
}
