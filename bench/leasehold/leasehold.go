// Package leasehold is the contender that this repository is about: the agent's own loop, store and targets, put
// together as cmd/agent does.
package leasehold

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/bench/work"
	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/exec"
	"github.com/leasehold/leasehold/internal/exec/command/guardian"
	"github.com/leasehold/leasehold/internal/heap"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/store"
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
	if j.Kind == work.Fair {
		return p.insertTypes(ctx, j)
	}
	if j.Locks > 0 {
		return p.insertLocked(ctx, j)
	}
	if j.Tenants > 0 {
		return p.insertTenants(ctx, j)
	}
	if j.Graph != "" {
		return p.insertGraph(ctx, j)
	}
	return p.insert(ctx, j.Rows, j.Batch)
}

// Open opens the store and makes the loops, one for each agent.
func (Contender) Open(ctx context.Context, j work.Job) (_ work.Engine, err error) {
	cfg, err := load(j)
	if err != nil {
		return nil, err
	}
	e := &engine{doer: work.NewDoer(j, workers(j)), filled: j.Filled + j.Hung + j.Waiting, narrow: heap.Widen()}
	exec.Parallel(cfg.Tasks)
	for range max(j.Agents, 1) {
		a, err := e.newAgent(ctx, j, cfg)
		if err != nil {
			return nil, err
		}
		e.agents = append(e.agents, a)
	}
	return e, e.agents[0].place.Ping(ctx)
}

// newAgent puts an agent together.
func (e *engine) newAgent(ctx context.Context, j work.Job, cfg *config.Config) (*agent, error) {
	a := &agent{ended: make(chan error, 1), stopRunner: func() {}}
	var err error
	if a.place, err = open(ctx, j, cfg); err != nil {
		return nil, err
	}
	metrics := telemetry.NewMetrics(prometheus.NewRegistry())
	var executor poll.Executor = inner{e.doer}
	var gate poll.Gate
	var present func(time.Duration)
	if j.Kind.Targets() {
		o := exec.Options{Log: logger(), Metrics: metrics, Version: "bench", Workers: cfg.Agent.Workers}
		if j.Kind.HasProcesses() {
			o.Guardian = guardian.Self()
		}
		runner := exec.New(o)
		runner.Declare(cfg.Tasks, cfg.Agent.Workers)
		executor, gate, present, a.stopRunner = counted{runner, e.doer}, runner.Gate(), runner.Presence, runner.Close
	}
	a.batches = batch.New(batch.Options{Work: batch.NewEngine(a.place), Poll: cfg.Agent.Poll, Log: logger(), Metrics: metrics})
	a.loop = poll.New(poll.Options{
		Store: a.place, Leases: a.place, Executor: executor, Gate: gate,
		Declarations: poll.Declarations{
			Types: cfg.Tasks, Workers: cfg.Agent.Workers, Poll: cfg.Agent.Poll, Drain: time.Second, Config: cfg.Hash,
		},
		Agent:   store.Agent{Name: cfg.Agent.Name, Version: "bench", Presence: cfg.Agent.Presence},
		Present: present, Batch: a.batches.Note, Clock: lease.BootClock(), Log: logger(), Metrics: metrics,
	})
	return a, nil
}

// engine is one agent, or several that share the work.
type engine struct {
	doer   *work.Doer
	filled int
	agents []*agent
	over   context.CancelFunc // of what agents do for batches
	narrow func()             // ends heap.Widen
}

type agent struct {
	place      place
	loop       *poll.Engine
	batches    *batch.Loop
	stopRunner func()
	ended      chan error
}

func (e *engine) Doer() *work.Doer { return e.doer }
func (e *engine) Version() string  { return "" }

func (e *engine) Start(ctx context.Context) error {
	var over context.Context
	over, e.over = context.WithCancel(ctx)
	for _, a := range e.agents {
		go func() { // ends with Stop
			folded := make(chan error, 1)
			go func() { folded <- a.batches.Run(over) }()
			a.ended <- errors.Join(a.loop.Run(ctx), <-folded)
		}()
	}
	return nil
}

func (e *engine) Left(ctx context.Context) (bool, error) {
	return e.agents[0].place.left(ctx, e.filled)
}

func (e *engine) Stop(ctx context.Context) error {
	for _, a := range e.agents {
		a.loop.Drain()
	}
	e.over()
	e.narrow()
	var errs []error
	for _, a := range e.agents {
		select {
		case err := <-a.ended:
			a.stopRunner()
			errs = append(errs, err, a.place.end())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
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

// RunMany runs several attempts, one after another.
func (i inner) RunMany(ls []*lease.Lease, t *task.Type, ended func(int, task.Outcome)) {
	for n, l := range ls {
		ended(n, i.Run(l, t))
	}
}

// counted is the product's own executor, counted.
type counted struct {
	runner *exec.Runner
	doer   *work.Doer
}

// Run runs one attempt.
func (c counted) Run(l *lease.Lease, t *task.Type) task.Outcome {
	if t.Name != work.HungType {
		defer c.doer.Done()
	}
	return c.runner.Run(l, t)
}

// RunMany runs several attempts in one request.
func (c counted) RunMany(ls []*lease.Lease, t *task.Type, ended func(int, task.Outcome)) {
	c.runner.RunMany(ls, t, func(i int, o task.Outcome) {
		defer c.doer.Done()
		ended(i, o)
	})
}
