// Package leasehold is the contender that this repository is about: the agent's own loop, store and targets, put
// together as cmd/agent does.
package leasehold

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/bench/work"
	"github.com/leasehold/leasehold/internal/exec"
	"github.com/leasehold/leasehold/internal/exec/command/guardian"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// Contender is Leasehold, on Postgres or on a SQLite file.
type Contender struct{}

// Setup migrates and inserts.
func (Contender) Setup(ctx context.Context, j work.Job) (err error) {
	cfg, err := load(j)
	if err != nil {
		return err
	}
	p, err := open(ctx, j, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	if _, err := p.Migrator().Up(ctx); err != nil {
		return err
	}
	return p.insert(ctx, j.Rows)
}

// Open opens the store and makes the loop.
func (Contender) Open(ctx context.Context, j work.Job) (work.Engine, error) {
	cfg, err := load(j)
	if err != nil {
		return nil, err
	}
	e := &engine{doer: work.NewDoer(j, workers(j)), filled: j.Filled, ended: make(chan error, 1), stopRunner: func() {}}
	if e.place, err = open(ctx, j, cfg); err != nil {
		return nil, err
	}
	metrics := telemetry.NewMetrics(prometheus.NewRegistry())
	var executor poll.Executor = inner{e.doer}
	var gate poll.Gate
	var present func(time.Duration)
	exec.Parallel(cfg.Tasks)
	if j.Kind == work.HTTP || j.Kind == work.Exec {
		o := exec.Options{Log: logger(), Metrics: metrics, Version: "bench", Workers: cfg.Agent.Workers}
		if j.Kind == work.Exec {
			o.Guardian = guardian.Self()
		}
		runner := exec.New(o)
		executor, gate, present, e.stopRunner = counted{runner, e.doer}, runner.Breakers(), runner.Presence, runner.Close
	}
	e.loop = poll.New(poll.Options{
		Store: e.place, Leases: e.place, Executor: executor, Gate: gate, Types: cfg.Tasks,
		Agent:   lease.Agent{Name: cfg.Agent.Name, Version: "bench", Config: cfg.Hash, Presence: cfg.Agent.Presence},
		Present: present,
		Workers: cfg.Agent.Workers, Poll: cfg.Agent.Poll, Drain: time.Second, Clock: lease.BootClock(), Log: logger(), Metrics: metrics,
	})
	return e, e.place.Ping(ctx)
}

type engine struct {
	doer       *work.Doer
	place      place
	filled     int
	loop       *poll.Engine
	stopRunner func()
	ended      chan error
}

func (e *engine) Doer() *work.Doer { return e.doer }
func (e *engine) Version() string  { return "" }

func (e *engine) Start(ctx context.Context) error {
	go func() { e.ended <- e.loop.Run(ctx) }() // ends with Stop
	return nil
}

func (e *engine) Left(ctx context.Context) (bool, error) { return e.place.left(ctx, e.filled) }

func (e *engine) Stop(ctx context.Context) error {
	e.loop.Drain()
	select {
	case err := <-e.ended:
		e.stopRunner()
		return errors.Join(err, e.place.end())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inner does the work that has no target: nothing, or noting the time.
type inner struct{ doer *work.Doer }

// Run runs one attempt.
func (i inner) Run(l *lease.Lease, _ *task.Type) task.Outcome {
	l.Start()
	if err := i.doer.Do(l.Context(), int64(l.Task().ID), l.Task().Payload); err != nil {
		return task.Outcome{Verdict: task.Rejected, Error: err.Error()}
	}
	return task.Outcome{Verdict: task.Succeeded}
}

// counted is the product's own executor, counted.
type counted struct {
	runner *exec.Runner
	doer   *work.Doer
}

// Run runs one attempt.
func (c counted) Run(l *lease.Lease, t *task.Type) task.Outcome {
	defer c.doer.Done()
	return c.runner.Run(l, t)
}
