package main

import (
	"log/slog"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/exec"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// newEngine builds the loop of an agent. guardian starts its guardian process; nil: it has none. release is to be called once it has ended.
func newEngine(
	cfg *config.Config, s dataStore, log *slog.Logger, metrics *telemetry.Metrics, guardian []string,
) (e engine, release func()) {
	version := readBuild().Version
	runner := exec.New(exec.Options{
		Log: log, Metrics: metrics, Version: version, Workers: cfg.Agent.Workers, Guardian: guardian,
	})
	loop := poll.New(poll.Options{
		Store:  s,
		Leases: s,
		Agent: lease.Agent{
			Name: cfg.Agent.Name, Region: cfg.Agent.Region, Version: version, Config: cfg.Hash, Presence: cfg.Agent.Presence,
		},
		Executor: runner,
		Gate:     runner.Breakers(),
		Present:  runner.Presence,
		Types:    cfg.Tasks,
		Workers:  cfg.Agent.Workers,
		Poll:     cfg.Agent.Poll,
		Drain:    cfg.Agent.Drain,
		Clock:    lease.BootClock(),
		Log:      log,
		Metrics:  metrics,
	})
	return loop, runner.Close
}
