package main

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/activity"
	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/work"
)

// settings are what the agent's parts go by, as the configuration in force has it.
type settings struct {
	batches   *varying[batching]
	retention *varying[time.Duration]
	blocks    *varying[*config.Config] // what is declared
}

// batching is how an agent works on batches.
type batching struct {
	works bool // an observer changes nothing
	poll  time.Duration
}

func batchingOf(cfg *config.Config) batching { return batching{cfg.Agent.Workers > 0, cfg.Agent.Poll} }

func settingsOf(cfg *config.Config) settings {
	return settings{vary(batchingOf(cfg)), vary(cfg.Store.Retention), vary(cfg)}
}

// access is who may use the listener.
func access(cfg *config.Config) api.Access {
	return api.Access{
		Token: cfg.Agent.Token, ReadToken: cfg.Agent.ReadToken, ReadOnly: cfg.Agent.ReadOnly, Advertise: cfg.Agent.Advertise,
	}
}

// follow has all parts of the agent go by another configuration, whose chunk plans these are. The engine calls it when it does so, one call
// at a time. It does not block.
func (a *agent) follow(cfg *config.Config, plans []chunk.Plan) {
	a.cfg.Store(cfg)
	if a.parallel != nil {
		a.parallel(cfg.Tasks)
	}
	a.runner.Declare(cfg.Tasks, cfg.Agent.Workers)
	a.pings.advertise(a.listener, cfg.Agent.Advertise)
	a.server.Admit(access(cfg))
	a.server.Keep(a.connections(cfg))
	a.declarer.Declare(cfg.Schedules, func(name string) string { return cfg.Place("schedule", name) })
	a.fires.SetPoll(cfg.Agent.Poll)
	a.fires.Note()
	a.splitter.Replace(plans)
	a.chunks.Replace(plans)
	a.settings.batches.set(batchingOf(cfg))
	a.settings.retention.set(cfg.Store.Retention)
	a.settings.blocks.set(cfg)
}

// batching works on batches while the agent claims rows. Where there are operations or changes of many tasks, the engine finds them.
func (a *agent) batching(ctx context.Context, how batching) error {
	if !how.works {
		<-ctx.Done()
		return nil
	}
	o := batch.Options{
		Work: batch.NewEngine(a.store), Bulk: batch.NewBulk(a.store, ops.NamedSignature), Poll: how.poll, Look: 10 * how.poll,
		Log: a.log, Metrics: a.metrics,
	}
	if a.spans != nil {
		o.Ended = a.traceBatch
	}
	l := batch.New(o)
	a.batches.Store(l)
	return l.Run(ctx)
}

// noteBatches is called when there may be work for batches.
func (a *agent) noteBatches() {
	if l := a.batches.Load(); l != nil {
		l.Note()
	}
}

// noteChanges is called when there are operations or changes of many tasks.
func (a *agent) noteChanges() {
	if l := a.batches.Load(); l != nil {
		l.Changed()
	}
}

// maintain maintains the store.
func (a *agent) maintain(ctx context.Context, retention time.Duration) error {
	return work.Maintenance{Store: a.store, Retention: retention, Log: a.log, Metrics: a.metrics}.Run(ctx)
}

// recorder writes what the agent has counted of its attempts.
func (a *agent) recorder() *activity.Recorder {
	return activity.NewRecorder(activity.Options{
		Counters: a.counters, Store: a.store, Joined: a.joined, Session: a.engine.Session, Now: a.engine.StoreNow, Log: a.log, Metrics: a.metrics,
	})
}

// declare notes the configuration's blocks in the store.
func (a *agent) declare(ctx context.Context, cfg *config.Config) error {
	blocks := blocksOf(cfg)
	return work.Declaring{
		Declare: func(ctx context.Context, session task.Session) (bool, error) {
			return a.store.DeclareBlocks(ctx, session, blocks)
		},
		Joined: a.joined, Session: a.engine.Session, Log: a.log, Metrics: a.metrics,
	}.Run(ctx)
}
