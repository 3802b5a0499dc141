// Package leasehold is the contender that this repository is about: the agent's own loop, store and targets, put
// together as cmd/agent does.
package leasehold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/bench/work"
	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/exec"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// workers is how many rows are worked on at once, by kind of work, where a job does not say.
func workers(j work.Job) int {
	switch {
	case j.Workers > 0:
		return j.Workers
	case j.Kind == work.Exec:
		return 128
	case j.Kind == work.HTTP:
		return 256
	default:
		return 500
	}
}

// Contender is Leasehold on Postgres.
type Contender struct{}

func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// load reads the declarations that the job stands for, as a user would write them.
func load(j work.Job) (*config.Config, error) {
	target := fmt.Sprintf("webhook {\n url = %q\n }", j.Target)
	switch {
	case j.Kind == work.Exec:
		target = fmt.Sprintf("command {\n argv = [%q]\n dir = \"/\"\n }", work.Program)
	case j.Target == "":
		target = "webhook {\n url = \"http://127.0.0.1:9\"\n }" // it is never called: the executor is this package's
	}
	text := fmt.Sprintf("agent {\n name = \"bench\"\n workers = %d\n}\nstore {\n url = %q\n notify = %t\n}\ntask %q {\n %s\n}\n",
		workers(j), j.URL, !j.NoNotify, work.TaskType, target)
	dir, err := os.MkdirTemp("", "leasehold-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in the system's directory for such things
	path := filepath.Join(dir, "bench.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return config.Load([]string{path}, config.Options{})
}

func open(ctx context.Context, cfg *config.Config) (*postgres.Store, error) {
	return postgres.Open(ctx, postgres.Options{
		URL: cfg.Store.URL, Schema: cfg.Store.Schema, Connections: cfg.Store.Connections, Notify: cfg.Store.Notify, Log: logger(),
	})
}

// Setup migrates and inserts.
func (Contender) Setup(ctx context.Context, j work.Job) error {
	cfg, err := load(j)
	if err != nil {
		return err
	}
	s, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Migrator().Up(ctx); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, j.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the process ends
	_, err = conn.Exec(ctx, `INSERT INTO leasehold.task (type, payload) SELECT $1, $2::jsonb FROM generate_series(1, $3::integer)`,
		work.TaskType, work.Payload, j.Rows)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `VACUUM ANALYZE leasehold.task`)
	return err
}

// Open opens the store and makes the loop.
func (Contender) Open(ctx context.Context, j work.Job) (work.Engine, error) {
	cfg, err := load(j)
	if err != nil {
		return nil, err
	}
	e := &engine{doer: work.NewDoer(j, workers(j)), ended: make(chan error, 1), stopRunner: func() {}}
	if e.store, err = open(ctx, cfg); err != nil {
		return nil, err
	}
	if e.look, err = pgx.Connect(ctx, j.URL); err != nil {
		return nil, err
	}
	metrics := telemetry.NewMetrics(prometheus.NewRegistry())
	var executor poll.Executor = inner{e.doer}
	var gate poll.Gate
	if j.Kind == work.HTTP || j.Kind == work.Exec {
		runner := exec.New(exec.Options{Log: logger(), Metrics: metrics, Version: "bench", Workers: cfg.Agent.Workers})
		executor, gate, e.stopRunner = counted{runner, e.doer}, runner.Breakers(), runner.Close
	}
	e.loop = poll.New(poll.Options{
		Store: e.store, Leases: e.store, Executor: executor, Gate: gate, Types: cfg.Tasks,
		Agent:   lease.Agent{Name: cfg.Agent.Name, Version: "bench", Config: cfg.Hash, Presence: cfg.Agent.Presence},
		Workers: cfg.Agent.Workers, Poll: cfg.Agent.Poll, Drain: time.Second, Clock: lease.BootClock(), Log: logger(), Metrics: metrics,
	})
	return e, e.store.Ping(ctx)
}

type engine struct {
	doer       *work.Doer
	store      *postgres.Store
	look       *pgx.Conn
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

func (e *engine) Left(ctx context.Context) (left bool, err error) {
	err = e.look.QueryRow(ctx, `SELECT EXISTS (SELECT FROM leasehold.task)`).Scan(&left)
	return left, err
}

func (e *engine) Stop(ctx context.Context) error {
	e.loop.Drain()
	select {
	case err := <-e.ended:
		e.stopRunner()
		e.store.Close()
		return errors.Join(err, e.look.Close(ctx))
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
