package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/bench/work"
)

// idleRest is how long engines that have just started are left alone before they are watched.
const idleRest = 5 * time.Second

// Idle starts so many engines on one database where nothing is due, and watches them from outside.
func (r *Rig) Idle(ctx context.Context, c Contender, engines int, watch time.Duration) (o Outcome, err error) {
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
	var pids []int
	var stops []func() error
	defer func() {
		for _, stop := range stops {
			err = errors.Join(err, stop())
		}
	}()
	for range engines {
		pid, stop, err := idler(ctx, run, dir)
		if err != nil {
			return o, err
		}
		pids, stops = append(pids, pid), append(stops, stop)
	}
	if err := Pause(ctx, idleRest); err != nil {
		return o, err
	}
	return r.watch(ctx, d, pids, watch)
}

// idler starts one engine.
func idler(ctx context.Context, run Run, dir string) (pid int, stop func() error, err error) {
	if program := run.Contender.Program; program != nil {
		command, err := program.Command(dir, run.Job.URL)
		if err != nil {
			return 0, nil, err
		}
		return launch(ctx, command, program.Ready)
	}
	run.Job.Step = work.Run
	p, err := start(ctx, run.Contender.Command, run.Job)
	if err != nil {
		return 0, nil, err
	}
	if _, err := p.read(); err != nil {
		return 0, nil, err
	}
	stop = func() error {
		_, err := p.result()
		return err
	}
	return p.cmd.Process.Pid, stop, p.begin()
}

// reading is what engines and server have used so far.
type reading struct {
	agents, server, busy, here float64 // seconds of CPU
	statements                 int64
	at                         time.Time
}

func (r *Rig) reading(ctx context.Context, d *Database, pids []int) (u reading, err error) {
	u.at, u.here = time.Now(), work.Usage().Self
	for _, pid := range pids {
		used, err := TreeCPU(pid)
		if err != nil {
			return u, err
		}
		u.agents += used
	}
	c, err := d.Peek(ctx)
	if err != nil {
		return u, err
	}
	u.server, u.statements = c.CPU, c.Statements
	u.busy, err = BusyCPU()
	return u, err
}

// watch returns what engines use over a period. CPU is in percent of one core; what is said of agents is for one of them.
func (r *Rig) watch(ctx context.Context, d *Database, pids []int, during time.Duration) (o Outcome, err error) {
	before, err := r.reading(ctx, d, pids)
	if err != nil {
		return o, err
	}
	if err := Pause(ctx, during); err != nil {
		return o, err
	}
	after, err := r.reading(ctx, d, pids)
	if err != nil {
		return o, err
	}
	n, seconds := float64(len(pids)), after.at.Sub(before.at).Seconds()
	agents, server := after.agents-before.agents, after.server-before.server
	o.Measures = Measures{
		"seconds":            seconds,
		"agent_cpu_percent":  100 * agents / n / seconds,
		"server_cpu_percent": 100 * server / seconds,
		"others_cpu_percent": 100 * max(after.busy-before.busy-agents-server-(after.here-before.here), 0) / seconds,
	}
	if after.statements >= 0 {
		o.Measures["statements_per_second"] = float64(after.statements-before.statements) / seconds
	}
	connections, err := d.Connections(ctx)
	if err != nil {
		return o, err
	}
	o.Measures["connections"] = float64(connections)
	for _, pid := range pids {
		bytes, err := residentMemory(pid)
		if err != nil {
			return o, err
		}
		o.Measures["rss_mb"] += float64(bytes) / 1e6 / n
	}
	return o, nil
}

// residentMemory is VmRSS of proc(5), in bytes.
func residentMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	number, _, _ := strings.Cut(after, "kB")
	kilobytes, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	return kilobytes << 10, err
}
