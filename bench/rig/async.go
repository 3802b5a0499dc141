package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/bench/work"
)

// asyncs are tasks that go on after a 202, each in this process, and ping once in a while.
type asyncs struct {
	every  time.Duration // between the pings of a task
	ctx    context.Context
	client *http.Client
	tasks  sync.WaitGroup

	accepted, pings, failed atomic.Int64
	slowest                 atomic.Int64 // answer to a ping, nanoseconds
}

// serve accepts a task.
func (a *asyncs) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	url := r.Header.Get("Leasehold-Ping-Url")
	a.accepted.Add(1)
	w.WriteHeader(http.StatusAccepted)
	a.tasks.Go(func() { a.live(url) })
}

// live pings until the measurement is over.
func (a *asyncs) live(url string) {
	for Pause(a.ctx, a.every/2+rand.N(a.every/2)) == nil {
		began := time.Now()
		r, err := http.NewRequestWithContext(a.ctx, http.MethodGet, url, http.NoBody) //nolint:gosec // the agent under test gave it
		if err != nil {
			a.failed.Add(1)
			return
		}
		resp, err := a.client.Do(r) //nolint:gosec // as above
		switch {
		case a.ctx.Err() != nil:
			return
		case err != nil:
			a.failed.Add(1)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		a.pings.Add(1)
		if resp.StatusCode != http.StatusOK {
			a.failed.Add(1)
		}
		for took := int64(time.Since(began)); ; {
			old := a.slowest.Load()
			if took <= old || a.slowest.CompareAndSwap(old, took) {
				break
			}
		}
	}
}

// host serves them until close.
func (a *asyncs) host(ctx context.Context) (url string, closeAll func() error, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	living, end := context.WithCancel(ctx)
	a.ctx = living
	server := &http.Server{Handler: http.HandlerFunc(a.serve), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // ends with Close
	return "http://" + l.Addr().String(), func() error {
		end()
		err := server.Close()
		a.tasks.Wait()
		return err
	}, nil
}

// await waits until so many were accepted, and their pings are spread evenly.
func (a *asyncs) await(ctx context.Context, tasks int) error {
	for a.accepted.Load() < int64(tasks) {
		if err := Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return Pause(ctx, 2*a.every)
}

// Async has one agent hold so many accepted tasks, each of which pings at least as often as every, and watches it from
// outside.
func (r *Rig) Async(ctx context.Context, c Contender, tasks int, every, during time.Duration) (o Outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, runWithin)
	defer cancel()
	d, err := r.Postgres.Create(ctx, "")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, d.Drop(context.WithoutCancel(ctx))) }()
	dir, err := os.MkdirTemp("", "leasehold-bench-")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := r.setup(ctx, Run{Contender: c, Job: work.Job{Kind: work.Idle, URL: d.url, Workers: c.Workers}}); err != nil {
		return o, fmt.Errorf("set up: %w", err)
	}
	const connections = 64
	a := &asyncs{every: every, client: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections,
	}}}
	target, closeAll, err := a.host(ctx)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	command, err := c.Program.Accepting(dir, d.url, target)
	if err != nil {
		return o, err
	}
	pid, stop, err := launch(ctx, command, c.Program.Ready)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := a.fill(ctx, d, tasks); err != nil {
		return o, err
	}
	return a.watch(ctx, r, d, pid, during)
}

// fill inserts the tasks and waits until all are accepted.
func (a *asyncs) fill(ctx context.Context, d *Database, tasks int) error {
	insert := fmt.Sprintf(`INSERT INTO leasehold.task (type) SELECT '%s' FROM generate_series(1, %d)`, work.TaskType, tasks)
	if err := d.Exec(ctx, insert); err != nil {
		return err
	}
	return a.await(ctx, tasks)
}

// watch is the measurement.
func (a *asyncs) watch(ctx context.Context, r *Rig, d *Database, pid int, during time.Duration) (o Outcome, err error) {
	a.slowest.Store(0)
	before := a.pings.Load()
	if o, err = r.watch(ctx, d, []int{pid}, during); err != nil {
		return o, err
	}
	o.Measures["pings_per_second"] = float64(a.pings.Load()-before) / o.Measures["seconds"]
	o.Measures["slowest_answer_ms"] = float64(a.slowest.Load()) / 1e6
	o.Measures["pings_refused"] = float64(a.failed.Load())
	stalls, err := d.Count(ctx, `SELECT count(*) FROM leasehold.attempt`)
	o.Measures["false_stalls"] = float64(stalls)
	return o, err
}
