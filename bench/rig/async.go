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
		r, err := http.NewRequestWithContext(a.ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			a.failed.Add(1)
			return
		}
		resp, err := a.client.Do(r)
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
	run := Run{Contender: c, Job: work.Job{Kind: work.Idle, URL: d.url, Workers: c.Workers}}
	if err := r.setup(ctx, run); err != nil {
		return o, fmt.Errorf("set up: %w", err)
	}
	living, end := context.WithCancel(ctx)
	const connections = 64
	a := &asyncs{every: every, ctx: living, client: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections,
	}}}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		end()
		return o, err
	}
	server := &http.Server{Handler: http.HandlerFunc(a.serve), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // ends with Close
	defer func() {
		end()
		err = errors.Join(err, server.Close())
		a.tasks.Wait()
	}()
	command, err := c.Program.Accepting(dir, d.url, "http://"+l.Addr().String())
	if err != nil {
		return o, err
	}
	pid, stop, err := launch(ctx, command, c.Program.Ready)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := d.Exec(ctx, fmt.Sprintf(`INSERT INTO leasehold.task (type) SELECT '%s' FROM generate_series(1, %d)`, work.TaskType, tasks)); err != nil {
		return o, err
	}
	for a.accepted.Load() < int64(tasks) {
		if err := Pause(ctx, 100*time.Millisecond); err != nil {
			return o, err
		}
	}
	if err := Pause(ctx, 2*every); err != nil { // until their pings are spread evenly
		return o, err
	}
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
