package rig

import (
	"context"
	"errors"

	"github.com/leasehold/leasehold/bench/work"
)

// Template is a database that runs begin with a copy of.
type Template struct {
	Name     string
	Database *Database // nil: they begin with an empty one
	Live     int       // how many live rows are in it, with the ids from 1
}

// Of is the database's name, for Run.Template.
func (t Template) Of() string {
	if t.Database == nil {
		return ""
	}
	return t.Database.Name
}

// Fill makes a template with the contender's schema and what fill puts into it.
func (r *Rig) Fill(ctx context.Context, c Contender, name string, fill func(ctx context.Context, d *Database) error) (t Template, err error) {
	d, err := r.Postgres.Create(ctx, "")
	if err != nil {
		return t, err
	}
	err = r.setup(ctx, Run{Contender: c, Job: work.Job{Kind: work.Noop, URL: d.url}})
	if err == nil {
		err = fill(ctx, d)
	}
	if err == nil {
		err = d.Quiet(ctx)
	}
	if err != nil {
		return t, errors.Join(err, d.Drop(context.WithoutCancel(ctx)))
	}
	return Template{Name: name, Database: d}, nil
}
