// Package river is River (https://riverqueue.com), tuned as its documentation and its own benchmark suggest.
package river

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/leasehold/leasehold/bench/work"
)

const (
	connections = 10
	cooldown    = time.Millisecond     // FetchCooldown: the least between two fetches
	fetchEvery  = 2 * time.Millisecond // FetchPollInterval: and the most
	insertBatch = 10_000
)

// workers is how many rows are worked on at once, where a job does not say.
func workers(j work.Job) int {
	switch {
	case j.Workers > 0:
		return j.Workers
	case j.Kind == work.Noop:
		return 1000
	default:
		return 500
	}
}

// args are a job's arguments. They are the row's payload as it stands.
type args struct{ json.RawMessage }

// Kind is the job's type.
func (args) Kind() string { return work.TaskType }

// Contender is River.
type Contender struct{}

// pool has so many connections.
func pool(ctx context.Context, url string, size int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = size
	return pgxpool.NewWithConfig(ctx, cfg)
}

func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// Setup migrates and inserts.
func (Contender) Setup(ctx context.Context, j work.Job) error {
	p, err := pool(ctx, j.URL, connections)
	if err != nil {
		return err
	}
	defer p.Close()
	driver := riverpgxv5.New(p)
	m, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: logger()})
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	client, err := river.NewClient(driver, &river.Config{Logger: logger()})
	if err != nil {
		return err
	}
	for left := j.Rows; left > 0; left -= insertBatch {
		batch := make([]river.InsertManyParams, min(left, insertBatch))
		for i := range batch {
			batch[i].Args = args{json.RawMessage(work.Payload)}
		}
		if _, err := client.InsertManyFast(ctx, batch); err != nil {
			return err
		}
	}
	_, err = p.Exec(ctx, `VACUUM ANALYZE river_job`)
	return err
}

// Open makes the client.
func (Contender) Open(ctx context.Context, j work.Job) (work.Engine, error) {
	e := &engine{doer: work.NewDoer(j, workers(j))}
	var err error
	if e.pool, err = pool(ctx, j.URL, connections); err != nil {
		return nil, err
	}
	if e.look, err = pgx.Connect(ctx, j.LookURL()); err != nil {
		return nil, err
	}
	all := river.NewWorkers()
	river.AddWorker(all, &worker{doer: e.doer})
	every := fetchEvery
	if j.Kind == work.Idle {
		every = river.FetchPollIntervalDefault // as it is used without tuning: notifications wake it
	}
	e.client, err = river.NewClient(riverpgxv5.New(e.pool), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers(j)}}, Workers: all,
		FetchCooldown: cooldown, FetchPollInterval: every, JobTimeout: 20 * time.Second, Logger: logger(), PollOnly: j.NoNotify,
	})
	if err != nil {
		return nil, err
	}
	return e, e.pool.Ping(ctx)
}

type engine struct {
	doer   *work.Doer
	pool   *pgxpool.Pool
	look   *pgx.Conn
	client *river.Client[pgx.Tx]
}

func (e *engine) Doer() *work.Doer { return e.doer }

func (e *engine) Start(ctx context.Context) error { return e.client.Start(ctx) }

func (e *engine) Left(ctx context.Context) (left bool, err error) {
	// By the index on state, so that a look costs nothing.
	err = e.look.QueryRow(ctx, `SELECT EXISTS (SELECT FROM river_job WHERE state IN ('available', 'running', 'retryable', 'scheduled'))`).Scan(&left)
	return left, err
}

func (e *engine) Stop(ctx context.Context) error {
	err := e.client.Stop(ctx)
	e.pool.Close()
	return errors.Join(err, e.look.Close(ctx))
}

func (e *engine) Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, d := range info.Deps {
		if d.Path == "github.com/riverqueue/river" {
			return d.Version
		}
	}
	return ""
}

// worker does the work of one job.
type worker struct {
	river.WorkerDefaults[args]
	doer *work.Doer
}

// Work does it.
func (w *worker) Work(ctx context.Context, j *river.Job[args]) error {
	return w.doer.Do(ctx, j.ID, j.EncodedArgs)
}

// Producer inserts as an application does.
type Producer struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
}

// NewProducer connects.
func NewProducer(ctx context.Context, url string) (*Producer, error) {
	p, err := pool(ctx, url, 1)
	if err != nil {
		return nil, err
	}
	c, err := river.NewClient(riverpgxv5.New(p), &river.Config{Logger: logger()})
	if err != nil {
		return nil, err
	}
	return &Producer{p, c}, p.Ping(ctx)
}

// Insert inserts one row.
func (p *Producer) Insert(ctx context.Context, payload string) error {
	_, err := p.client.Insert(ctx, args{json.RawMessage(payload)}, nil)
	return err
}

// Close disconnects.
func (p *Producer) Close() { p.pool.Close() }
