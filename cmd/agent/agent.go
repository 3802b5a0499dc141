package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/leasehold/leasehold/internal/activity"
	"github.com/leasehold/leasehold/internal/api"
	v1 "github.com/leasehold/leasehold/internal/api/v1"
	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/exec"
	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/internal/web"
)

// engine is what the wiring needs of the loop.
type engine interface {
	// Run works until Drain or the end of ctx, which is the hard stop. Nothing is left running when it returns.
	Run(ctx context.Context) error
	// Drain lets running attempts finish, releases the rest and has Run return.
	Drain()
	// Health is nil while the loop turns.
	Health() error
	supervised
	ping.Pings
	// MayFire reports whether the session may fire schedules while the store's clock shows now.
	MayFire(now time.Time) bool
	Steady() bool
	Session() (s task.Session, joined bool)
	// StoreNow returns the time by the store's clock; zero while it is not known.
	StoreNow() time.Time
	// AtRest returns what is left that the session could run; "": nothing.
	AtRest(ctx context.Context, within time.Duration, others func(context.Context) (string, error)) (left string, err error)
	// Replace has it go by other declarations.
	Replace(d poll.Declarations)
	// LongestStop is how long the most patient attempt, of those that run and those that may be claimed, may take to stop.
	LongestStop() time.Duration
}

// Bounds of the parts once they are interrupted.
const (
	settleMargin   = 15 * time.Second // beside draining and stopping: for the last settlements
	listenerWithin = 3 * time.Second
	quickWithin    = 6 * time.Second // for parts that only have to notice
)

// agent is everything that runs in one agent.
type agent struct {
	cfg      atomic.Pointer[config.Config] // in force
	first    *config.Config                // that it started with
	store    dataStore
	at       string // the store's URL
	where    string // the same for people, without its password; set before run
	log      *slog.Logger
	listener net.Listener
	registry *prometheus.Registry
	metrics  *telemetry.Metrics
	pings    *pings
	spans    *telemetry.Tracer          // nil: it exports none
	batches  atomic.Pointer[batch.Loop] // nil before it works on batches
	declarer *schedule.Declarer
	fires    *schedule.Loop
	splitter *chunk.Splitter
	chunks   *chunk.Loop
	settings settings
	counters *activity.Counters // of attempts
	runner   *exec.Runner
	engine   engine
	parallel func([]*task.Type)                                             // exec.Parallel's; nil: it is not called
	server   *api.Server                                                    // set before anything runs
	reloads  *reloader                                                      // nil: it does not reload
	until    *untilIdle                                                     // set before run; nil: it runs until a signal
	ended    func(*task.Task, task.Outcome, task.Transition, time.Duration) // called at each attempt's end; set before run; nil: none

	orders           *orders
	joined, draining chan struct{} // closed once the session is open, and once a signal has come
}

// newAgent builds an agent on an open store whose schema admits the binary. It listens from now on, but claims nothing
// before run.
//
// at is the store's URL. guardian starts its guardian process; nil: it has none, and what it starts may outlive it.
func newAgent(ctx context.Context, cfg *config.Config, s dataStore, at string, log *slog.Logger, guardian []string) (*agent, error) {
	a := &agent{
		first: cfg, store: s, at: at, log: log, registry: prometheus.NewRegistry(), settings: settingsOf(cfg),
		counters: activity.NewCounters(), orders: newOrders(), joined: make(chan struct{}), draining: make(chan struct{}),
	}
	a.cfg.Store(cfg)
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a.metrics = telemetry.NewMetrics(a.registry)
	var err error
	if a.listener, err = api.Listen(ctx, cfg.Agent.Listen); err != nil {
		return nil, err
	}
	a.pings = newPings(a.listener, cfg.Agent.Advertise)
	a.makeTracer(ctx)
	plans := a.chunkPlans(cfg) //nolint:contextcheck // nothing is opened yet
	a.splitter = chunk.NewSplitter(s, plans, log)
	a.makeEngine(guardian)
	a.makeSchedules()
	a.makeChunks(plans)
	return a, nil
}

// makeSchedules builds what declares and fires schedules. The engine is there already.
func (a *agent) makeSchedules() {
	held := func(now time.Time) bool { return !a.engine.MayFire(now) }
	declaredAt := func(name string) string { return a.first.Place("schedule", name) }
	a.declarer = schedule.NewDeclarer(a.store, a.first.Schedules, a.engine.Session, held, declaredAt, a.log)
	engine := schedule.NewEngine(a.store, a.first.Agent.Name, held)
	if a.spans != nil {
		engine.OnFire(a.traceFiring)
	}
	a.fires = schedule.NewLoop(schedule.Options{
		Settle: a.declarer.Turn, Fire: engine.Fire,
		Poll: a.first.Agent.Poll, Log: a.log, Metrics: a.metrics,
	})
}

// run runs the agent until a signal ends it, or a part of it fails. What went wrong has been logged.
func (a *agent) run() error {
	signals := newSignals(a.log, a.longestDrain(), a.orders.drain, func() {
		a.engine.Drain()
		close(a.draining)
	})
	signals.longest = a.longestDrain
	defer signals.stop()
	defer a.runner.Close()
	group := &actors{log: a.log}
	group.add(part{"signals", signals.run, signals.interrupt, always(quickWithin)})
	group.add(a.loop(signals))
	group.add(a.listen(signals))
	group.add(untilCancelled("store figures", a.collector().Run))
	group.add(renewed("maintenance", a.settings.retention, a.maintain))
	group.add(renewed("declarations", a.settings.blocks, a.declare))
	group.add(untilCancelled("activity", a.recorder().Run)) // ends after the loop has, and so writes its last counts
	group.add(untilCancelled("schedules", a.fires.Run))     // of an observer, too: it takes no worker
	group.add(untilCancelled("chunks", a.chunks.Run))
	group.add(renewed("batches", a.settings.batches, a.batching))
	m := newManager(a.engine, a.log)
	if a.reloads != nil {
		a.reloads.manager = m
		group.add(untilCancelled("reloads", a.reloads.run))
	}
	if m != nil {
		group.add(untilCancelled("service manager", func(ctx context.Context) error { return m.run(ctx, a.joined, a.draining) }))
	}
	if a.until != nil {
		group.add(a.until.part(a))
	}
	err := group.run()
	a.spans.Close()
	switch {
	case err == nil:
		a.log.Info("agent ended")
		if a.until != nil {
			return a.until.result()
		}
		return nil
	case store.NeedsOperator(err):
		return err // it has its remedy in it: say it once more, in plain words
	}
	return &failure{code: exitFailed}
}

// longestDrain is how long draining may take in all, if it begins now.
func (a *agent) longestDrain() time.Duration {
	return a.cfg.Load().Agent.Drain + a.engine.LongestStop() + settleMargin
}

// loop is the engine. When it has drained it ends, and everything else with it: health, metrics and the store stay until the
// last task is settled.
func (a *agent) loop(s *signals) part {
	ctx, cancel := context.WithCancel(context.Background())
	return part{
		name: "loop",
		execute: func() error {
			defer cancel()
			return a.engine.Run(ctx)
		},
		interrupt: func(cause error) {
			if errors.Is(cause, errStopNow) {
				cancel()
			}
			a.engine.Drain()
		},
		within: func(cause error) time.Duration {
			most := a.longestDrain()
			if errors.Is(cause, errStopNow) {
				most = a.engine.LongestStop() + settleMargin
			}
			if left, draining := s.draining(); draining { // however often it is called: the first time counts
				most = min(most, left+quickWithin)
			}
			return most
		},
	}
}

// listen is the listener: it answers until everything else has ended or is about to.
func (a *agent) listen(s *signals) part {
	o := api.Options{
		Gatherer: a.registry, Access: access(a.first), Log: a.log, Pings: a.handler(),
		Connections: a.connections(a.first),
		Probes: api.Probes{Healthy: a.engine.Health, Store: a.reachable, Present: a.engine.Fit, Draining: func() bool {
			_, draining := s.draining()
			return draining
		}},
	}
	checkups, histories := ops.NewCheckups(a.store), &ops.Histories{}
	o.V1 = v1.New(v1.Options{
		Checkups: checkups, Histories: histories,
		Store: a.store, Bulk: batch.NewBulk(a.store, ops.NamedSignature), Log: a.log, Healthy: a.engine.Health,
		CountChunks: a.countChunks,
		Configuration: func() ([]store.Block, func(string) string) {
			cfg := a.cfg.Load()
			return blocksOf(cfg), claimant(cfg)
		},
		Trace: func(ctx context.Context, id task.ID) (string, error) { return derivedTrace(ctx, a.store, id) },
	})
	dashboard := web.New(web.Options{
		Checkups: checkups, Histories: histories,
		Store: a.store, Bulk: batch.NewBulk(a.store, ops.NamedSignature), Log: a.log, Agent: a.first.Agent.Name, Where: a.where,
		Version: readBuild().Version,
	})
	o.Web, o.Refuse = dashboard, dashboard.Refuse
	if a.reloads != nil {
		o.Reload = a.reloads
	}
	server := api.New(a.listener, o)
	a.server = server
	ended := make(chan struct{})
	return part{
		name: "listener",
		execute: func() error {
			served := make(chan error, 1)
			go func() { served <- server.Serve() }() // ends with Shutdown
			select {
			case err := <-served:
				return err
			case <-ended:
			}
			ctx, cancel := context.WithTimeout(context.Background(), listenerWithin)
			defer cancel()
			return errors.Join(server.Shutdown(ctx), <-served)
		},
		interrupt: func(error) { close(ended) },
		within:    always(listenerWithin + time.Second),
	}
}

// untilCancelled is a part that works until its context ends.
func untilCancelled(name string, work func(context.Context) error) part {
	ctx, cancel := context.WithCancel(context.Background())
	return part{
		name:      name,
		execute:   func() error { return work(ctx) },
		interrupt: func(error) { cancel() },
		within:    always(quickWithin),
	}
}

// reachable is what readiness asks of the store: nil if it answers, and its schema admits the binary.
func (a *agent) reachable(ctx context.Context) error {
	if err := a.store.Ping(ctx); err != nil {
		if !errors.Is(err, context.Canceled) {
			a.metrics.Outage.Failed(a.log, "ping", err)
		}
		return err
	}
	a.metrics.Outage.Worked(a.log, "ping")
	return nil
}

// collector makes and registers the metrics of the whole store.
func (a *agent) collector() *telemetry.StoreCollector {
	c := telemetry.NewStoreCollector(func(ctx context.Context) (telemetry.StoreStats, error) {
		stats, err := a.store.Stats(ctx)
		if err != nil {
			return telemetry.StoreStats{}, err
		}
		plain := plainStats(stats)
		orphans, err := a.store.RegionOrphans(ctx)
		plain.RegionOrphans = map[string]int64{}
		for _, o := range orphans {
			plain.RegionOrphans[o.Region] += o.Due
		}
		if err != nil {
			return plain, err
		}
		halted, err := a.store.Halted(ctx)
		plain.ParkedSchedules, plain.BlockedSequences = halted.Schedules, halted.Sequences
		return plain, err
	}, a.metrics.StoreErrors.WithLabelValues("stats"), a.metrics.Outage, a.log)
	a.registry.MustRegister(c)
	return c
}

// plainStats is a store's figures without our types: telemetry knows none.
func plainStats(s store.Stats) telemetry.StoreStats {
	plain := telemetry.StoreStats{
		OldestDue: s.OldestDue, Orphans: s.Orphans, AgentsPresent: s.AgentsPresent, BatchTasks: s.BatchTasks,
	}
	for _, c := range s.Waiting {
		if c.State.Waiting() {
			plain.Waiting = append(plain.Waiting, telemetry.WaitingCount{Type: c.Type, State: string(c.State), N: c.N})
		}
	}
	return plain
}

// started says in the log what runs, and where.
func (a *agent) started(p place) {
	names := make([]string, 0, len(a.first.Tasks))
	for _, t := range a.first.Tasks {
		names = append(names, t.Name)
	}
	a.log.Info("agent starting", "agent", a.first.Agent.Name, "listen", api.Address(a.listener), "store", p.String(),
		"types", names, "workers", a.first.Agent.Workers, "config", a.first.Hash, "version", readBuild().Version)
	a.warnOfRoot(a.first)
}

// warnOfRoot says in the log which types of a configuration run commands as root because the agent does.
func (a *agent) warnOfRoot(cfg *config.Config) {
	if asRoot := runAsRoot(cfg.Tasks, os.Geteuid()); len(asRoot) > 0 {
		a.log.Warn("the agent runs as root, and so do the commands of these types: set another user in `command { user = … }`, "+
			"or run the agent as another user", "types", asRoot)
	}
}

// runAsRoot lists the types of which a command runs as root because the agent does, as that user.
func runAsRoot(types []*task.Type, euid int) (names []string) {
	if euid != 0 {
		return nil
	}
	for _, t := range types {
		if slices.ContainsFunc(t.Targets(), func(target task.Target) bool {
			c, command := target.(*task.Command)
			return command && c.User == ""
		}) {
			names = append(names, t.Name)
		}
	}
	return names
}
