package rig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold/leasehold/bench/work"
)

const (
	producers  = 10
	heldRows   = 2000 // more than any engine takes at once
	insertRest = time.Second
)

// Inserts is a run in which rows are inserted one by one.
type Inserts struct {
	Contender Contender
	Rows      int
	// Beside is what an engine does meanwhile: Hold (it is busy), Idle (it is idle, and does what comes), "" (there is none).
	Beside work.Kind
	SQL    []string // runs before
}

// Insert has producers insert rows, each with a connection of its own and each row in a transaction of its own.
func (r *Rig) Insert(ctx context.Context, run Inserts) (o Outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, runWithin)
	defer cancel()
	d, err := r.Postgres.Create(ctx, "")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, d.Drop(context.WithoutCancel(ctx))) }()
	j := work.Job{Kind: run.Beside, URL: d.url, Workers: run.Contender.Workers}
	if j.Kind == work.Hold {
		j.Rows = heldRows
	}
	if err := r.setup(ctx, Run{Contender: run.Contender, Job: j}); err != nil {
		return o, fmt.Errorf("set up: %w", err)
	}
	if err := d.Exec(ctx, run.SQL...); err != nil {
		return o, err
	}
	stop := func() error { return nil }
	if run.Beside != "" {
		if _, stop, err = idler(ctx, Run{Contender: run.Contender.spoken(), Job: j}, ""); err != nil {
			return o, err
		}
	}
	if err := Pause(ctx, insertRest); err != nil {
		return o, err
	}
	o.Measures, err = r.insert(ctx, run, d)
	return o, errors.Join(err, stop())
}

// spoken is the contender as a process that speaks the protocol of package work.
func (c Contender) spoken() Contender {
	c.Program = nil
	return c
}

// insert inserts, and returns how fast.
func (r *Rig) insert(ctx context.Context, run Inserts, d *Database) (Measures, error) {
	var all []Producer
	defer func() {
		for _, p := range all {
			p.Close()
		}
	}()
	for range producers {
		p, err := run.Contender.Producer(ctx, d.url)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
		if err := p.Insert(ctx, work.Payload); err != nil { // its statement is prepared from now on
			return nil, err
		}
	}
	before, err := r.read()
	if err != nil {
		return nil, err
	}
	var inserting sync.WaitGroup
	failed := make(chan error, len(all))
	for i, p := range all {
		rows := run.Rows/len(all) + min(1, max(run.Rows%len(all)-i, 0))
		inserting.Go(func() {
			for range rows {
				if err := p.Insert(ctx, work.Payload); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	inserting.Wait()
	close(failed)
	after, err := r.read()
	if err := errors.Join(err, <-failed); err != nil {
		return nil, err
	}
	u, rows := after.sub(before), float64(run.Rows)
	return Measures{
		"inserts_per_second": rows / u.wall, "seconds": u.wall, "server_cpu_us_per_row": us * u.server / rows,
		"producers_cpu_us_per_row": us * u.here / rows,
	}, nil
}
