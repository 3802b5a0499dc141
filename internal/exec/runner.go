// Package exec runs attempts: it sends a task to its target, a callback or a subprocess, and says how the attempt
// ended. Breakers hold attempts back from targets that are out of reach.
package exec

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command"
	"github.com/leasehold/leasehold/internal/exec/webhook"
	"github.com/leasehold/leasehold/internal/exec/worker"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// Options are what a Runner needs.
type Options struct {
	Log     *slog.Logger       // nil: the default logger
	Metrics *telemetry.Metrics // nil: none
	Version string             // of the agent, sent to HTTP targets as User-Agent
	Workers int                // attempts at once, to keep as many idle connections
	// Guardian is the argument list that starts the guardian process (guardian.Self); nil: there is none.
	Guardian []string
	// Patient: the runner runs one attempt alone, which waits for its worker as long as that takes to be ready.
	Patient bool
}

// Runner runs attempts. It is safe for use by many at once.
type Runner struct {
	log      *slog.Logger
	breakers *Breakers
	webhooks atomic.Pointer[webhook.Client]
	commands *command.Runner
	workers  *worker.Pools

	version string
	slots   int // of webhooks; Declare alone uses it

	checks checks
}

// New makes a runner with breakers of its own.
func New(o Options) *Runner {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	r := &Runner{
		log:      o.Log,
		commands: command.New(command.Options{Log: o.Log, Guardian: o.Guardian}),
		version:  o.Version, slots: o.Workers,
	}
	r.webhooks.Store(r.newClient())
	pools := worker.Options{Patient: o.Patient}
	if o.Metrics != nil {
		pools.Stray = func(typ string) { o.Metrics.StrayLines.WithLabelValues(typ).Inc() }
		r.breakers = NewBreakers(o.Metrics.BreakerOpen, nil)
	} else {
		r.breakers = NewBreakers(nil, nil)
	}
	r.workers = worker.NewPools(r.commands, o.Log, pools)
	return r
}

func (r *Runner) newClient() *webhook.Client {
	return webhook.New(webhook.Options{Version: r.version, Workers: r.slots, Log: r.log})
}

// Breakers are the runner's breakers. Run asks them for permission; its caller reports the outcome (Done), or that there
// was none (Release) where it ended in its check. What became of the check they know already.
func (r *Runner) Breakers() *Breakers { return r.breakers }

// Declare says which types the agent has from now on, and how many attempts it runs at once. Workers of any other configuration end,
// after the attempts that they run. It does not wait, and is not called by two at once.
func (r *Runner) Declare(types []*task.Type, slots int) {
	r.workers.Declare(types)
	if slots == r.slots {
		return
	}
	r.slots = slots
	r.webhooks.Swap(r.newClient()).Close() // requests under way end as they are; their connections are closed soon after
}

// Guard starts the guardian process where there is none yet: it comes before the first declaration of a command. Options has the rest.
func (r *Runner) Guard(argv []string) { r.commands.Guard(argv) }

// Forget drops what is kept of a type that is declared no more, and of which nothing runs.
func (r *Runner) Forget(typ string) { r.breakers.Forget(typ) }

// Drain says that no attempt starts any more: workers end, those that run one after it. It does not wait.
func (r *Runner) Drain() { r.workers.End() }

// Gate limits how many attempts may start: by breakers, and for targets of workers by the processes that there can be.
type Gate struct {
	*Breakers
	workers *worker.Pools
}

// Gate is the runner's.
func (r *Runner) Gate() Gate { return Gate{r.breakers, r.workers} }

// Room returns how many attempts may start beside those that run: n < 0 is no bound, and 0 is none, to be asked again once wait
// has passed. Asking changes nothing.
func (g Gate) Room(typ string, phase task.Phase) (n int, wait time.Duration) {
	n, wait = g.Breakers.Room(typ, phase)
	if n == closedForNow {
		return n, wait
	}
	if m, longer, ok := g.workers.Room(typ, phase); ok && m >= 0 && (n < 0 || m < n) {
		return m, longer
	}
	return n, wait
}

// Condition returns which breakers are open, whose checks are being asked, and what processes do. Types are named as declared.
func (r *Runner) Condition() store.Condition {
	return store.Condition{Breakers: r.breakers.Open(), Checks: r.checks.list(), Processes: r.commands.Processes()}
}

// Presence says when the presence of the agent's session runs out, as a time of lease.BootClock: no subprocess outlives
// it. It does not block.
func (r *Runner) Presence(until time.Duration) { r.commands.Presence(until) }

// Close closes connections, ends workers, and removes files that are kept between attempts. No attempt may run.
func (r *Runner) Close() {
	r.webhooks.Load().Close()
	r.workers.Close()
	r.commands.Close()
}

// Run runs one attempt, its check first if the type has one, and says how it ended. It returns once nothing of the attempt
// is left: the process group is empty, or the connection is closed or free for the next. It never takes longer than the
// lease.
func (r *Runner) Run(l *lease.Lease, t *task.Type) task.Outcome {
	if o, ok := r.begin(t, l); !ok {
		return o
	}
	if l.Phase() == task.Run && t.Check != nil {
		if o, over := r.check(l, t); over {
			return o
		}
	}
	return r.ask(l, t)
}

// begin asks the breaker whether an attempt may start; o is its outcome if it may not.
func (r *Runner) begin(t *task.Type, l *lease.Lease) (o task.Outcome, ok bool) {
	if r.breakers.Begin(t.Name, l.Phase(), l.Task().ID) {
		return o, true
	}
	return task.Outcome{
		Verdict: task.Drained, NeverStarted: true,
		Error: "the target is out of reach, and another task is probing it",
	}, false
}

// ask runs an attempt, or a check, at its target.
func (r *Runner) ask(l *lease.Lease, t *task.Type) task.Outcome {
	row, phase := l.Task(), l.Phase()
	switch target := t.TargetOf(phase).(type) {
	case *task.Webhook:
		return r.webhooks.Load().Run(l, t, target)
	case *task.Command:
		reached := func() { r.breakers.Reached(t.Name, phase, row.ID) }
		var o task.Outcome
		if target.Worker != nil {
			o = r.workers.Run(l, t, target, reached)
		} else {
			o = r.commands.Run(l, t, target, reached)
		}
		if o.Verdict == task.Undelivered {
			r.log.Error("the command cannot be started",
				"task", row.ID, "type", t.Name, "phase", phase, "fence", row.Fence, "error", o.Error)
		}
		return o
	default:
		panic(fmt.Sprintf("a target is a webhook or a command, not %T", target))
	}
}
