package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/activity"
	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqlite"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/internal/work"
)

// defaultStore is the embedded store of a directory without a configuration.
const defaultStore = "sqlite:leasehold.db"

// dataStore is everything that a store does. The stores import no room, so it is here that the compiler checks both of them
// against the rooms' interfaces.
type dataStore interface {
	lease.Store
	lease.Remote
	poll.Store
	poll.Adopter
	ops.Store
	ops.Explainer
	ops.Diagnoser
	ops.Operator
	ops.Rollbacks
	ops.Agents
	ops.Pauses
	ops.Orphans
	ops.Declarations
	ops.Batches
	ops.Bulks
	ops.Glances
	ops.Audits
	ops.Flows
	batch.Store
	batch.BulkStore
	schedule.Store
	schedule.Declarations
	chunk.Store
	chunk.Declarations
	chunk.Tasks
	ops.Schedules
	ops.Sequences
	ops.ChunkPlans
	work.Store
	activity.Store
	ops.Activities
	Migrator() store.Migrator
	Close() error
}

// place is where a store is, before it is opened.
type place struct {
	config.Store
	path string // of the SQLite file; "" for Postgres

	outage *telemetry.Outage // of the agent that opens it; nil: of a short command
}

// embedded reports whether the store is a file of this host.
func (p place) embedded() bool { return p.path != "" }

// placeOf reads a store's URL. What it says of a URL leaves out the password.
func placeOf(s config.Store) (place, error) {
	scheme, _, _ := strings.Cut(s.URL, ":")
	switch scheme {
	case "postgres", "postgresql":
		return place{Store: s}, nil
	case "sqlite":
		path, err := sqlite.ParseURL(s.URL)
		if err != nil {
			return place{}, usagef("%s", config.RedactText(err.Error()))
		}
		return place{Store: s, path: path}, nil
	}
	return place{}, usagef("--store: use postgres://user@host/database or sqlite:PATH")
}

// placeFor is the store of an agent: the one that --store names, else its configuration's.
func (a *app) placeFor(cfg *config.Config) (place, error) {
	s := cfg.Store
	if a.cli.Store != "" {
		s.URL = a.cli.Store
	}
	return placeOf(s)
}

// findPlace is the store of a command that needs no configuration. Where --store names one, a configuration that is
// there anyhow adds what it has to say (the schema), but need not be well; one that --config names must be.
func (a *app) findPlace() (place, error) {
	paths := a.configPaths(nil)
	fallback := config.Store{URL: defaultStore, Schema: "leasehold", Connections: 2}
	if len(paths) == 0 {
		if _, err := os.Stat(config.DefaultPath); errors.Is(err, fs.ErrNotExist) {
			if a.cli.Store != "" {
				fallback.URL = a.cli.Store
			}
			return placeOf(fallback)
		}
	}
	cfg, err := config.Load(paths, config.Options{})
	switch {
	case err == nil:
		return a.placeFor(cfg)
	case len(a.cli.Config) > 0 || a.cli.Store == "":
		return place{}, err
	}
	fallback.URL = a.cli.Store
	return placeOf(fallback)
}

// open opens the store; create makes the embedded file where there is none.
func (p place) open(ctx context.Context, create bool, log *slog.Logger) (dataStore, error) {
	if p.embedded() {
		return sqlite.Open(ctx, sqlite.Options{Path: p.path, Create: create, Group: p.Group, Log: log})
	}
	if p.outage == nil {
		return openPostgres(ctx, p.Store, log, nil)
	}
	return openPostgres(ctx, p.Store, log, func(err error) {
		if err == nil {
			p.outage.Worked(log, "listen")
			return
		}
		p.outage.Failed(log, "listen", err)
	})
}

// Bounds of what short commands do with a store.
const (
	openTimeout  = 15 * time.Second
	callTimeout  = 30 * time.Second
	closeTimeout = 5 * time.Second
)

// withTables is withStore for commands that work with tasks: a store whose schema does not admit the binary is refused,
// with the remedy.
func (a *app) withTables(do func(ctx context.Context, s dataStore) error) error {
	return a.withStore(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if err := s.Ping(call); store.NeedsOperator(err) {
			return err
		} else if err != nil {
			return fmt.Errorf("%w: check the store's URL (--store, LEASEHOLD_STORE or the store block)", err)
		}
		return do(ctx, s)
	})
}

// withStore opens the store that the flags name for one command, and closes it after.
func (a *app) withStore(do func(ctx context.Context, s dataStore) error) error {
	p, err := a.findPlace()
	if err != nil {
		return err
	}
	ctx := context.Background()
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s, err := p.open(opening, false, a.log())
	if err != nil {
		return err
	}
	err = do(ctx, s)
	if closing := closeStore(s); err == nil {
		err = closing
	}
	return err
}

// closeStore closes a store, but does not wait for ever: the process is about to end.
func closeStore(s dataStore) error {
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }() // ends with Close, or with the process
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case err := <-closed:
		return err
	case <-timer.C:
		return fmt.Errorf("close the store: timed out after %s", closeTimeout)
	}
}
