package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/exec"
	"github.com/leasehold/leasehold/internal/store"
)

type runCmd struct {
	Paths   []string `arg:"" optional:"" name:"path" help:"Configuration files and directories."`
	Migrate bool     `help:"Migrate the store first. The embedded store always is."`
}

// Help gives examples.
func (runCmd) Help() string {
	return `SIGTERM and SIGINT drain: running tasks may finish within agent.drain, the rest is stopped and given back. A
second signal stops at once.

Examples:

    leasehold run
    leasehold run /etc/leasehold/ --migrate
    leasehold run billing.hcl --store postgres://agent@db/app --log-level warn`
}

// Run runs the agent.
func (c runCmd) Run(a *app) error {
	cfg, err := a.loadConfig(c.Paths)
	if err != nil {
		return err
	}
	return a.runAgent(cfg, c.Migrate, func(*agent, place) error { return nil })
}

// runAgent runs an agent to its end; ready is called when it listens and before it claims.
func (a *app) runAgent(cfg *config.Config, migrate bool, ready func(*agent, place) error) (err error) {
	p, err := a.placeFor(cfg)
	if err != nil {
		return err
	}
	defer survivePipes()()
	exec.Parallel(cfg.Tasks)
	log := a.log()
	for _, w := range cfg.Warnings {
		log.Warn("the configuration may not be as it was meant", "at", w.Place, "why", w.Text)
	}
	ctx := context.Background()
	s, err := openReady(ctx, p, migrate, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore(s)) }()
	running, err := newAgent(ctx, cfg, s, log, a.guardianFor(cfg.Tasks...))
	if err != nil {
		return err
	}
	running.started(p)
	if err := ready(running, p); err != nil {
		return errors.Join(err, running.listener.Close())
	}
	return running.run()
}

// openReady opens the store and migrates it, if asked to or embedded. A store that has another schema is an error now;
// one that is out of reach is not: the agent waits for it, unless it is to be migrated.
func openReady(ctx context.Context, p place, migrate bool, log *slog.Logger) (dataStore, error) {
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s, err := p.open(opening, true, log)
	if err != nil {
		return nil, err
	}
	if migrate || p.embedded() {
		if err := migrateUp(ctx, s, log); err != nil {
			return nil, errors.Join(err, closeStore(s))
		}
	}
	switch err := reach(ctx, s); {
	case isSchemaError(err):
		return nil, errors.Join(err, closeStore(s))
	case err != nil:
		log.Warn("the store is out of reach; the agent starts and tries on", "err", err)
	}
	return s, nil
}

// How long a store that is to be migrated may take to come up beside the agent.
const (
	storePatience = 30 * time.Second
	storePause    = time.Second
)

// migrateUp migrates a store as soon as it is there.
func migrateUp(ctx context.Context, s dataStore, log *slog.Logger) error {
	start := time.Now()
	for {
		err := reach(ctx, s)
		if err == nil || isSchemaError(err) {
			break
		}
		if time.Since(start) > storePatience {
			return err
		}
		log.Warn("the store is out of reach and cannot be migrated yet, trying again", "err", err)
		<-time.After(storePause) // a signal ends the process: nothing runs yet
	}
	call, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	done, err := s.Migrator().Up(call)
	for _, m := range done {
		log.Info("store migrated", "version", m.Version, "name", m.Name)
	}
	return err
}

// reach checks that the store can be reached and has the binary's schema.
func reach(ctx context.Context, s dataStore) error {
	call, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	return s.Ping(call)
}

// isSchemaError tells whether the store's schema is not the binary's; the error says what to do about it.
func isSchemaError(err error) bool {
	var other *store.SchemaError
	return errors.As(err, &other)
}
