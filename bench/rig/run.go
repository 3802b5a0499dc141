package rig

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	Claim    string   // a LIKE pattern that the texts of its claims match; "": not known
	File     bool     // it works on a SQLite file
	Program  *Program // what its users run, for when it is idle; nil: Command will do
	// Producer connects an application that inserts single rows.
	Producer func(ctx context.Context, url string) (Producer, error)
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
	// Template is the database that the run's begins as a copy of. What has succeeded in it does not count.
	Template string
	// Through, where it is set, gives the URL that the measured process uses in place of the database's.
	Through func(d *Database) (string, error)
	// Prepare, where it is set, is called with what the setup has made. What it returns is called at the end.
	Prepare func(ctx context.Context, d *Database) (restore func() error, err error)
}

// base makes the database of a run.
func (r *Rig) base(ctx context.Context, run Run) (Base, error) {
	if run.Contender.File {
		return newFile()
	}
	d, err := r.Postgres.Create(ctx, run.Template)
	if err != nil {
		return nil, err
	}
	d.claim = run.Contender.Claim
	return d, nil
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
	b, err := r.base(ctx, run)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, b.Drop(context.WithoutCancel(ctx))) }()
	run.Job.URL, run.Job.Target = b.URL(), r.Server.URL
	if run.Job.Workers == 0 {
		run.Job.Workers = run.Contender.Workers
	}
	var before int64
	if run.Template != "" {
		if before, err = b.Count(ctx, run.Contender.Finished); err != nil {
			return o, err
		}
	}
	restore, inserted, err := r.prepare(ctx, run, b)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, restore()) }()
	ready, err := b.Read(ctx)
	if err != nil {
		return o, err
	}
	r.Server.Reset()
	result, used, err := r.measure(ctx, run, b)
	if err != nil {
		return o, err
	}
	after, err := b.Read(ctx)
	if err != nil {
		return o, err
	}
	ran := after.Sub(ready)
	if run.Contender.Claim != "" && ran.Statements > 0 && ran.ClaimRows == 0 {
		return o, fmt.Errorf("no statement of %s matches the pattern of its claims any more: see Contender.Claim", run.Contender.Name)
	}
	o = Outcome{Version: result.Version, Measures: measures(run, *result, used, inserted, ran)}
	return o, r.check(ctx, run, b, before, o.Measures)
}

// prepare runs the setup and what else is to be there, and returns how long the setup took.
func (r *Rig) prepare(ctx context.Context, run Run, b Base) (restore func() error, took Counters, err error) {
	fresh, err := b.Read(ctx)
	if err != nil {
		return nil, took, err
	}
	if err := r.setup(ctx, run); err != nil {
		return nil, took, fmt.Errorf("set up: %w", err)
	}
	ready, err := b.Read(ctx)
	if err != nil {
		return nil, took, err
	}
	restore = func() error { return nil }
	if d, ok := b.(*Database); ok && run.Prepare != nil {
		if restore, err = run.Prepare(ctx, d); err != nil {
			return nil, took, fmt.Errorf("prepare: %w", err)
		}
	}
	return restore, ready.Sub(fresh), nil
}

// setup runs the contender's setup.
func (r *Rig) setup(ctx context.Context, run Run) error {
	j := run.Job
	j.Step = work.Setup
	if j.Kind == work.Latency || j.Kind == work.Idle {
		j.Rows = 0 // they come later, or never
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
func (r *Rig) measure(ctx context.Context, run Run, b Base) (*work.Result, used, error) {
	j := run.Job
	j.Step = work.Run
	if d, ok := b.(*Database); ok && run.Through != nil {
		var err error
		j.Look = j.URL
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
		if err := insertSlowly(ctx, run, b.URL()); err != nil {
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
func insertSlowly(ctx context.Context, run Run, url string) error {
	producer, err := run.Contender.Producer(ctx, url)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := Pause(ctx, latencyRest); err != nil {
		return err
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

// check proves that the work was done: as many rows have succeeded, and as many POSTs came, as there were rows.
func (r *Rig) check(ctx context.Context, run Run, b Base, before int64, m Measures) error {
	n, err := b.Count(ctx, run.Contender.Finished)
	if err != nil {
		return fmt.Errorf("count the finished rows: %w", err)
	}
	if n -= before; n != int64(run.Job.Rows) {
		return fmt.Errorf("%d of %d rows have succeeded", n, run.Job.Rows)
	}
	switch came := r.Server.Reset(); {
	case run.Job.Kind == work.HTTP && came.Posts != n:
		return fmt.Errorf("%d POSTs for %d rows", came.Posts, n)
	case run.Job.Kind == work.Many && came.Tasks != n:
		return fmt.Errorf("%d tasks in POSTs for %d rows", came.Tasks, n)
	case run.Job.Kind == work.HTTP || run.Job.Kind == work.Many:
		m["body_bytes"], m["posts_per_row"] = float64(came.Bytes)/float64(n), float64(came.Posts)/float64(n)
	}
	return nil
}
