package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/exec"
	"github.com/leasehold/leasehold/internal/heap"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/telemetry"
)

type runCmd struct {
	Paths   []string `arg:"" optional:"" name:"path" help:"Configuration files and directories."`
	Migrate bool     `help:"Migrate the store first. A SQLite store is always migrated."`

	UntilIdle bool          `help:"Exit once no task is running or due that the agent could run, now or within 5 s."`
	Timeout   time.Duration `placeholder:"DURATION" help:"With --until-idle: drain and exit with 5 if it is not idle by then."`
}

// Help gives examples.
func (runCmd) Help() string {
	return `SIGTERM and SIGINT drain: running tasks may finish within agent.drain; the rest are stopped and released. A second signal
stops at once. SIGHUP has the agent reload its configuration, as does ` + "`leasehold reload`" + `: the whole of it, or nothing.

--until-idle is for tests and cron jobs: the agent works off what is due, retries that follow within 5 s included, and exits with 0.
With 5 it exits where --timeout or a signal came first.

Examples:

    leasehold run
    leasehold run --until-idle --timeout 1m
    leasehold run /etc/leasehold/ --migrate
    leasehold run billing.hcl --store postgres://agent@db/app --log-level warn`
}

// Run runs the agent.
func (c runCmd) Run(a *app) error {
	cfg, err := a.loadConfig(c.Paths)
	if err != nil {
		return err
	}
	if err := c.checkIdle(cfg); err != nil {
		return err
	}
	return a.runAgent(cfg, reloading{load: a.reloaded(c.Paths)}, c.Migrate, func(running *agent, _ place) error {
		if c.UntilIdle {
			running.until = &untilIdle{timeout: c.Timeout}
		}
		return nil
	})
}

// checkIdle refuses an agent that could never be idle as it was meant, or a bound of nothing.
func (c runCmd) checkIdle(cfg *config.Config) error {
	switch {
	case c.Timeout < 0:
		return usagef("--timeout %s: give a duration above 0, such as 1m", c.Timeout)
	case c.Timeout > 0 && !c.UntilIdle:
		return usagef("--timeout bounds --until-idle: add that, or leave it out")
	case c.UntilIdle && cfg.Agent.Workers == 0:
		return usagef("--until-idle: this agent claims nothing (workers = 0 in the agent block)")
	}
	return nil
}

// reloaded returns how an agent loads its configuration anew. Its name stays, unless that is declared: the host may get another one.
func (a *app) reloaded(args []string) func() (*config.Config, error) {
	host := sync.OnceValues(os.Hostname) // as when it started, or nearly
	_, _ = host()
	return func() (*config.Config, error) {
		return config.Load(a.configPaths(args), config.Options{Hostname: host})
	}
}

// runAgent runs an agent to its end. how says how it loads its configuration anew; ready is called when it listens and before it claims.
func (a *app) runAgent(cfg *config.Config, how reloading, migrate bool, ready func(*agent, place) error) (err error) {
	p, err := a.placeFor(cfg)
	if err != nil {
		return err
	}
	p.outage = &telemetry.Outage{}
	defer survivePipes()()
	parallel := exec.Parallel(cfg.Tasks)
	log := a.log()
	hangups, letHangups := catchHangups()
	defer letHangups()
	if exposed(os.Args[1:]) {
		log.Warn("every user of this machine can read the store's password on the agent's command line: " +
			"set LEASEHOLD_STORE instead of --store, or url = env(\"DATABASE_URL\") in the store block")
	}
	limitMemory(log)
	defer heap.Widen()()
	for _, w := range cfg.Warnings {
		log.Warn("suspicious configuration", "at", w.Place, "why", w.Text)
	}
	ctx := context.Background()
	s, err := openReady(ctx, p, migrate, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore(s)) }()
	running, err := newAgent(ctx, cfg, s, p.URL, log, a.guardianFor(cfg.Tasks...))
	if err != nil {
		return err
	}
	running.metrics.Outage = p.outage // which may have begun before the agent
	how.place, how.guardian, how.hangups = a.placeFor, a.guardianFor, hangups
	running.parallel = parallel
	running.reloads = newReloader(running, how)
	running.where = p.String()
	running.started(p)
	if err := ready(running, p); err != nil {
		return errors.Join(err, running.listener.Close())
	}
	return running.run()
}

// openReady opens the store and migrates it, if asked to or embedded. A store whose schema does not admit the binary, or
// that does not let the agent in, is an error now; one that is out of reach is not: the agent waits for it, unless it is to be
// migrated.
func openReady(ctx context.Context, p place, migrate bool, log *slog.Logger) (dataStore, error) {
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s, err := p.open(opening, true, log)
	if err != nil {
		return nil, err
	}
	if migrate || p.embedded() {
		if err := migrateUp(ctx, s, p.outage, log); err != nil {
			return nil, errors.Join(err, closeStore(s))
		}
	}
	switch err := reach(ctx, s); {
	case store.NeedsOperator(err):
		return nil, errors.Join(err, closeStore(s))
	case err != nil:
		p.outage.Failed(log, "ping", err) // the agent starts, and keeps trying
	default:
		p.outage.Worked(log, "ping")
	}
	return s, nil
}

// How long a store that is to be migrated may take to come up beside the agent.
const (
	storePatience = 30 * time.Second
	storePause    = time.Second
)

// migrateUp migrates a store as soon as it is there.
func migrateUp(ctx context.Context, s dataStore, outage *telemetry.Outage, log *slog.Logger) error {
	start := time.Now()
	for {
		err := reach(ctx, s)
		if err == nil || store.IsOutdated(err) {
			outage.Worked(log, "ping")
			break
		}
		if store.NeedsOperator(err) {
			return err
		}
		if waited := time.Since(start); waited > storePatience {
			return fmt.Errorf("waited %s for the store: %w", waited.Round(time.Second), err)
		}
		outage.Failed(log, "ping", err) // it cannot be migrated yet
		<-time.After(storePause)        // a signal ends the process: nothing runs yet
	}
	call, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	done, err := s.Migrator().Up(call)
	for _, m := range done {
		log.Info("store migrated", "version", m.Version, "name", m.Name)
	}
	return err
}

// reach checks that the store can be reached and that its schema admits the binary.
func reach(ctx context.Context, s dataStore) error {
	call, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	return s.Ping(call)
}
