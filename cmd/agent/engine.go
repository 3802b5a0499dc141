package main

import (
	"time"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/exec"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// makeEngine builds the loop of the agent, and the runner, which is to be closed once the loop has ended. guardian starts its guardian
// process; nil: it has none.
func (a *agent) makeEngine(guardian []string) {
	cfg, version := a.first, readBuild().Version
	runner := exec.New(exec.Options{
		Log: a.log, Metrics: a.metrics, Version: version, Workers: cfg.Agent.Workers, Guardian: guardian,
	})
	runner.Declare(cfg.Tasks, cfg.Agent.Workers)
	a.engine = poll.New(poll.Options{
		Declarations: declarations(cfg),

		Store:   a.store,
		Leases:  a.store,
		Remote:  a.store,
		Adopter: a.store,
		Chunks:  a.splitter,
		Agent:   store.Agent{Name: cfg.Agent.Name, Version: version, Presence: cfg.Agent.Presence},

		Executor: runner,
		Gate:     runner.Gate(),
		Present:  runner.Presence,
		Batch:    a.noteBatches,
		Changes:  a.noteChanges,
		Removed:  runner.Forget,
		Joined:   func() { close(a.joined) },
		Draining: runner.Drain,
		Ordered:  a.orders.take,

		Condition: func() store.Condition {
			c := runner.Condition()
			c.Chunks = a.chunks.Waits()
			return c
		},
		Ended: func(row *task.Task, out task.Outcome, next task.Transition, took time.Duration) {
			if a.ended != nil {
				a.ended(row, out, next, took)
			}
		},
		PingURL:  a.pings.url,
		Secret:   a.pings.learn,
		Trace:    a.pings.trace,
		Tracing:  a.tracing(),
		Clock:    lease.BootClock(),
		Activity: a.counters,
		Log:      a.log,
		Metrics:  a.metrics,
	})
	a.runner = runner
}

// declarations returns what a configuration declares for the loop.
func declarations(cfg *config.Config) poll.Declarations {
	return poll.Declarations{
		Types: cfg.Tasks, Workers: cfg.Agent.Workers, Poll: cfg.Agent.Poll, Drain: cfg.Agent.Drain,
		Region: cfg.Agent.Region, Config: cfg.Hash,
	}
}
