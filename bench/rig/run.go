package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/bench/work"
)

const (
	runWithin    = 10 * time.Minute // one run, its setup included
	latencyRest  = time.Second      // from an engine's start to the first row: it has to be idle
	latencyEvery = 20 * time.Millisecond
)

// Contender is how an engine is started, and how its tables are looked at from outside.
type Contender struct {
	Name     string
	Command  []string // speaks the protocol of package work
	Workers  int      // rows at once; 0: what the contender finds best
	Finished string   // SQL that counts the rows that have succeeded
	// Producer connects an application that inserts single rows.
	Producer func(ctx context.Context, url string) (Producer, error)
}

// Producer inserts rows as an application does, each in a transaction of its own.
type Producer interface {
	Insert(ctx context.Context, payload string) error
	Close()
}

// Rig is where runs take place.
type Rig struct {
	Postgres *Postgres
	Server   *Server
}

// Run is one run.
type Run struct {
	Contender Contender
	Job       work.Job // without URL and Target
	// Through, where it is set, gives the URL that the measured process uses in place of the database's.
	Through func(d *Database) (string, error)
	// Prepare, where it is set, is called with what the setup has made. What it returns, where that is not nil, is called
	// at the end.
	Prepare func(ctx context.Context, d *Database) (undo func() error, err error)
}

// Measures are what a run gave, by name. Those with per_row in their unit are divided by the number of rows.
type Measures map[string]float64

// Outcome is what came of a run.
type Outcome struct {
	Measures Measures
	Version  string
}

// Do runs one run on a database of its own and checks that all rows have succeeded.
func (r *Rig) Do(ctx context.Context, run Run) (o Outcome, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s by %s: %w", run.Job.Kind, run.Contender.Name, err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, runWithin)
	defer cancel()
	d, err := r.Postgres.Create(ctx)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, d.Drop(context.WithoutCancel(ctx))) }()
	run.Job.URL, run.Job.Target = d.URL, r.Server.URL
	if run.Job.Workers == 0 {
		run.Job.Workers = run.Contender.Workers
	}
	fresh, err := d.Read(ctx)
	if err != nil {
		return o, err
	}
	if err := r.setup(ctx, run); err != nil {
		return o, fmt.Errorf("set up: %w", err)
	}
	if run.Prepare != nil {
		undo, err := run.Prepare(ctx, d)
		if err != nil {
			return o, fmt.Errorf("prepare: %w", err)
		}
		if undo != nil {
			defer func() { err = errors.Join(err, undo()) }()
		}
	}
	ready, err := d.Read(ctx)
	if err != nil {
		return o, err
	}
	r.Server.Reset()
	result, used, err := r.measure(ctx, run, d)
	if err != nil {
		return o, err
	}
	after, err := d.Read(ctx)
	if err != nil {
		return o, err
	}
	o = Outcome{Version: result.Version, Measures: measures(run.Job, *result, used, ready.Sub(fresh), after.Sub(ready))}
	return o, r.check(ctx, run, d, o.Measures)
}

// setup runs the contender's setup.
func (r *Rig) setup(ctx context.Context, run Run) error {
	j := run.Job
	j.Step = work.Setup
	if j.Kind == work.Latency || j.Kind == work.Idle {
		j.Rows = 0
	}
	p, err := start(ctx, run.Contender.Command, j)
	if err != nil {
		return err
	}
	if _, err := p.read(); err != nil {
		return err
	}
	return p.end(nil)
}

// used is what was used, in seconds of CPU, from an engine's start to its end.
type used struct {
	server float64 // all processes of Postgres
	here   float64 // this process: the producer, and the server that answers POSTs
	busy   float64 // everything on the machine
	wall   float64
}

// read reads what has been used so far.
func (r *Rig) read() (u used, err error) {
	u.here, u.wall = work.Usage().Self, float64(time.Now().UnixNano())/1e9
	if u.server, err = r.Postgres.CPU(); err != nil {
		return u, err
	}
	u.busy, err = BusyCPU()
	return u, err
}

func (u used) sub(before used) used {
	return used{u.server - before.server, u.here - before.here, u.busy - before.busy, u.wall - before.wall}
}

// measure runs the measured process.
func (r *Rig) measure(ctx context.Context, run Run, d *Database) (*work.Result, used, error) {
	j := run.Job
	j.Step = work.Run
	if run.Through != nil {
		var err error
		if j.URL, err = run.Through(d); err != nil {
			return nil, used{}, err
		}
	}
	p, err := start(ctx, run.Contender.Command, j)
	if err != nil {
		return nil, used{}, err
	}
	if _, err := p.read(); err != nil {
		return nil, used{}, err
	}
	before, err := r.read()
	if err != nil {
		return nil, used{}, p.end(err)
	}
	if err := p.begin(); err != nil {
		return nil, used{}, err
	}
	if j.Kind == work.Latency {
		if err := insertSlowly(ctx, run, d); err != nil {
			return nil, used{}, p.end(fmt.Errorf("insert: %w", err))
		}
	}
	l, err := p.read()
	if err != nil {
		return nil, used{}, err
	}
	after, err := r.read()
	if err := errors.Join(err, p.end(nil)); err != nil {
		return nil, used{}, err
	}
	if l.Result == nil {
		return nil, used{}, errors.New("the process gave no result")
	}
	return l.Result, after.sub(before), nil
}

// insertSlowly inserts the rows of Latency one by one.
func insertSlowly(ctx context.Context, run Run, d *Database) error {
	producer, err := run.Contender.Producer(ctx, d.URL)
	if err != nil {
		return err
	}
	defer producer.Close()
	rest := time.NewTimer(latencyRest)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	tick := time.NewTicker(latencyEvery)
	defer tick.Stop()
	for range run.Job.Rows {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := producer.Insert(ctx, work.Stamp(time.Now())); err != nil {
			return err
		}
	}
	return nil
}

// measures turns readings into what is reported.
func measures(j work.Job, result work.Result, u used, setup, ran Counters) Measures {
	const us = 1e6
	m := Measures{"seconds": result.Seconds, "rss_mb": float64(result.RSS) / 1e6}
	m["others_cpu_percent"] = 100 * max(u.busy-u.server-u.here-result.SelfCPU-result.ChildCPU, 0) / u.wall
	if j.Kind == work.Idle {
		m["agent_cpu_percent"] = 100 * (result.SelfCPU + result.ChildCPU) / result.Seconds
		m["server_cpu_percent"] = 100 * u.server / result.Seconds
		m["commits_per_second"] = float64(ran.Commits) / result.Seconds
		if ran.Statements >= 0 {
			m["statements_per_second"] = float64(ran.Statements) / result.Seconds
		}
		return m
	}
	rows := float64(j.Rows)
	m["agent_cpu_us_per_row"] = us * result.SelfCPU / rows
	m["child_cpu_us_per_row"] = us * result.ChildCPU / rows
	m["server_cpu_us_per_row"] = us * u.server / rows
	m["commits_per_row"] = float64(ran.Commits) / rows
	if ran.Statements >= 0 {
		m["statements_per_row"] = float64(ran.Statements) / rows
	}
	m["run_wal_bytes_per_row"] = float64(ran.WAL) / rows
	m["insert_wal_bytes_per_row"] = float64(setup.WAL) / rows
	if j.Kind == work.Latency {
		slices.Sort(result.Latencies)
		m["p50_ms"], m["p99_ms"] = percentile(result.Latencies, 50)/1000, percentile(result.Latencies, 99)/1000
		return m
	}
	m["rate"] = rows / result.Seconds
	m["wal_bytes_per_row"] = m["run_wal_bytes_per_row"] + m["insert_wal_bytes_per_row"]
	return m
}

// percentile is the value below or at which p percent of the sorted values are (nearest rank).
func percentile(sorted []int64, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return float64(sorted[max(rank, 1)-1])
}

// check proves that the work was done: as many rows have succeeded, and as many POSTs came, as there were rows.
func (r *Rig) check(ctx context.Context, run Run, d *Database, m Measures) error {
	if run.Job.Kind == work.Idle {
		return nil
	}
	n, err := d.Count(ctx, run.Contender.Finished)
	if err != nil {
		return fmt.Errorf("count the finished rows: %w", err)
	}
	if n != int64(run.Job.Rows) {
		return fmt.Errorf("%d of %d rows have succeeded", n, run.Job.Rows)
	}
	if run.Job.Kind == work.HTTP {
		posts, bytes := r.Server.Reset()
		if posts != n {
			return fmt.Errorf("%d POSTs for %d rows", posts, n)
		}
		m["body_bytes"] = float64(bytes) / float64(n)
	}
	return nil
}

// sqlProducer inserts with one statement.
type sqlProducer struct {
	conn *pgx.Conn
	sql  string
}

// SQLProducer makes producers that run a statement with the payload as its parameter.
func SQLProducer(sql string) func(ctx context.Context, url string) (Producer, error) {
	return func(ctx context.Context, url string) (Producer, error) {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return nil, err
		}
		return &sqlProducer{conn, sql}, nil
	}
}

func (p *sqlProducer) Insert(ctx context.Context, payload string) error {
	_, err := p.conn.Exec(ctx, p.sql, payload)
	return err
}

func (p *sqlProducer) Close() { _ = p.conn.Close(context.Background()) } // nothing is lost with it

// Brief is the most telling measure, for people who watch.
func (o Outcome) Brief() string {
	if rate, ok := o.Measures["rate"]; ok {
		return fmt.Sprintf("%.0f rows/s", rate)
	}
	if p50, ok := o.Measures["p50_ms"]; ok {
		return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms", p50, o.Measures["p99_ms"])
	}
	return fmt.Sprintf("agent CPU %.2f%%", o.Measures["agent_cpu_percent"])
}
