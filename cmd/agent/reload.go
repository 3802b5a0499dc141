package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// reloadWithin is how long the one who asked for a reload waits until the store knows of it. It takes effect then, however late.
const reloadWithin = 10 * time.Second

// reloading is how an agent takes its configuration anew, and when.
type reloading struct {
	load     func() (*config.Config, error)
	place    func(*config.Config) (place, error) // of its store
	guardian func(types ...*task.Type) []string  // starts the guardian process; nil: they need none
	hangups  <-chan os.Signal                    // nil: none are caught
	changes  <-chan string                       // a file, as soon as it has changed; nil: none is watched
}

// reloader has the agent take its configuration anew: the whole of it, or nothing. All that can fail is done before anything is touched.
type reloader struct {
	reloading

	agent   *agent
	log     *slog.Logger
	manager *manager      // nil: there is none
	within  time.Duration // reloadWithin
	asked   chan *asking
	ended   chan struct{} // closed with run's end
	adopted chan struct{} // has an element when the engine has adopted some

	mu   sync.Mutex
	list []*config.Config // that the engine has adopted and run has not told of

	last   *config.Config // that run has told of
	wanted *config.Config // of the last reload; nil: it has failed
}

// asking is one who waits for a reload.
type asking struct {
	by     string
	answer chan reloadReport // has room for one

	cfg *config.Config // that the agent is to adopt; run's
}

// reloadReport is what became of a reload.
type reloadReport struct {
	// Result is one of these below.
	Result   string            `json:"result"`
	Config   string            `json:"config"`           // hash of the configuration in force, or of what is to be
	Before   string            `json:"before,omitempty"` // hash of the one before
	Changes  []ops.BlockChange `json:"changes,omitempty"`
	Problems []config.Problem  `json:"problems,omitempty"` // why nothing was changed
}

// What becomes of a reload.
const (
	reloadLoaded  = "loaded"
	reloadWaits   = "waits"   // the store is yet to know of it, and the earlier configuration stays in force until then
	reloadInvalid = "invalid" // nothing was changed, nor in the following cases
	reloadRestart = "restart" // it changes something that needs a restart
	reloadNot     = "ending"  // the agent is about to end
)

// newReloader makes a reloader; run runs it.
func newReloader(a *agent, how reloading) *reloader {
	return &reloader{
		reloading: how, agent: a, log: a.log, last: a.first, within: reloadWithin,
		asked: make(chan *asking), ended: make(chan struct{}), adopted: make(chan struct{}, 1),
	}
}

// run reloads whenever that is wanted, until ctx ends.
func (r *reloader) run(ctx context.Context) error {
	defer close(r.ended)
	var waiting *asking
	late := time.NewTimer(r.within)
	defer late.Stop()
	begin := func(q *asking) { //nolint:contextcheck // what is opened is only tried
		if waiting != nil { // what it wanted is in the files, too
			waiting.answer <- reloadReport{Result: reloadWaits, Config: waiting.cfg.Hash, Before: r.agent.cfg.Load().Hash}
			waiting = nil
		}
		if r.reload(q) {
			waiting = q
			late.Reset(r.within)
		}
	}
	for {
		select {
		case <-ctx.Done():
			if waiting != nil {
				waiting.answer <- r.ending()
			}
			return nil
		case <-r.adopted:
			waiting = r.tell(waiting)
		case <-late.C:
			if waiting != nil {
				waiting.answer <- r.waits(waiting.cfg)
				waiting = nil
			}
		case <-r.hangups:
			begin(&asking{by: "SIGHUP", answer: make(chan reloadReport, 1)})
		case file := <-r.changes:
			begin(&asking{by: file + " has changed", answer: make(chan reloadReport, 1)})
		case q := <-r.asked:
			begin(q)
		}
	}
}

// reload loads the configuration and hands it to the engine. It reports whether that is to adopt it; else q has its answer.
func (r *reloader) reload(q *asking) bool {
	r.manager.reloads(true)
	cfg, plans, report := r.prepare()
	if cfg == nil {
		r.agent.metrics.Reloads.WithLabelValues(report.Result).Inc()
		r.agent.metrics.ReloadFailed.Set(1)
		r.wanted = nil
		r.refuse(q, &report)
		r.manager.reloads(false)
		q.answer <- report
		return false
	}
	r.agent.metrics.Reloads.WithLabelValues(reloadLoaded).Inc()
	r.log.Info("reloading the configuration", "asked_by", q.by, "files", cfg.Files, "config", cfg.Hash)
	q.cfg, r.wanted = cfg, cfg
	d := declarations(cfg)
	d.Adopted = func() {
		r.agent.follow(cfg, plans)
		r.mu.Lock()
		r.list = append(r.list, cfg)
		r.mu.Unlock()
		select {
		case r.adopted <- struct{}{}:
		default:
		}
	}
	r.agent.engine.Replace(d)
	return true
}

// prepare does all that can fail. cfg is nil where something has failed.
func (r *reloader) prepare() (cfg *config.Config, plans []chunk.Plan, report reloadReport) {
	a := r.agent
	if a.engine.Draining() {
		return nil, nil, r.ending()
	}
	report.Config, report.Result = a.cfg.Load().Hash, reloadInvalid
	cfg, err := r.load()
	if problems, ok := errors.AsType[*config.Problems](err); ok {
		report.Problems = problems.List()
		return nil, nil, report
	} else if err != nil {
		report.Problems = []config.Problem{{Text: err.Error()}}
		return nil, nil, report
	}
	if report.Problems = r.needRestart(cfg); len(report.Problems) > 0 {
		report.Result = reloadRestart
		return nil, nil, report
	}
	plans = a.chunkPlans(cfg)
	for i := range plans {
		src, err := plans[i].Open()
		if err != nil {
			report.Problems = append(report.Problems, config.Problem{Place: plans[i].Place, Text: config.RedactText(err.Error())})
			continue
		}
		src.Close()
	}
	if len(report.Problems) > 0 {
		return nil, nil, report
	}
	a.runner.Guard(r.guardian(cfg.Tasks...))
	return cfg, plans, report
}

// ending says that the agent is about to end.
func (r *reloader) ending() reloadReport {
	return reloadReport{Result: reloadNot, Config: r.agent.cfg.Load().Hash, Problems: []config.Problem{{
		Text: "the agent is about to end: it reads its configuration when it starts again",
	}}}
}

// needRestart lists what differs from the configuration that the agent started with and cannot change while it runs.
func (r *reloader) needRestart(cfg *config.Config) (list []config.Problem) {
	before, after := r.agent.first, cfg
	was, err := r.place(before)
	is, errNow := r.place(after)
	if err = errors.Join(err, errNow); err != nil {
		return []config.Problem{{Place: cfg.At("store", "url"), Text: err.Error()}}
	}
	shown := func(c *config.Config, block, attr string) string {
		for _, b := range c.Settings() {
			if b.Kind == block {
				return b.Fields[attr]
			}
		}
		return ""
	}
	for _, s := range []struct {
		block, attr string
		differs     bool
	}{
		{"agent", "name", before.Agent.Name != after.Agent.Name},
		{"agent", "listen", before.Agent.Listen != after.Agent.Listen},
		{"agent", "presence", before.Agent.Presence != after.Agent.Presence},
		{"store", "url", was.URL != is.URL},
		{"store", "schema", was.Schema != is.Schema},
		{"store", "connections", was.Connections != is.Connections},
		{"store", "notify", was.Notify != is.Notify},
		{"store", "group", was.Group != is.Group},
	} {
		if !s.differs {
			continue
		}
		change := ""
		if x, y := shown(before, s.block, s.attr), shown(after, s.block, s.attr); x != y {
			change = fmt.Sprintf(" (%s -> %s)", orNone(x), orNone(y))
		}
		list = append(list, config.Problem{Place: cfg.At(s.block, s.attr), Text: fmt.Sprintf(
			"%s.%s cannot change while the agent runs%s: restart the agent, or undo the change and reload", s.block, s.attr, change)})
	}
	return list
}

// refuse says in the log why nothing was changed.
func (r *reloader) refuse(q *asking, report *reloadReport) {
	for _, p := range report.Problems {
		r.log.Error("the configuration is not reloaded: nothing has changed", "asked_by", q.by, "at", p.Place, "error", p.Text,
			"config", report.Config)
	}
}

// tell says what has changed with each configuration that the engine has adopted. It returns the one who still waits.
func (r *reloader) tell(waiting *asking) *asking {
	r.mu.Lock()
	list := r.list
	r.list = nil
	r.mu.Unlock()
	for _, cfg := range list {
		report := reloadReport{Result: reloadLoaded, Config: cfg.Hash, Before: r.last.Hash, Changes: ops.Compare(allBlocks(r.last), allBlocks(cfg))}
		r.last = cfg
		for i := range report.Changes {
			c := &report.Changes[i]
			fields := make([]string, len(c.Fields))
			for k, f := range c.Fields {
				fields[k] = fmt.Sprintf("%s: %s -> %s", f.Name, orNone(f.Before), orNone(f.After))
			}
			r.log.Info("configuration changes", "what", c.What, "kind", c.Kind, "name", c.Name, "fields", fields)
		}
		for _, w := range cfg.Warnings {
			r.log.Warn("suspicious configuration", "at", w.Place, "why", w.Text)
		}
		r.agent.warnOfRoot(cfg)
		r.log.Info("configuration reloaded", "changes", len(report.Changes), "types", len(cfg.Tasks), "config", cfg.Hash, "before", report.Before)
		r.manager.reloads(false)
		if cfg == r.wanted {
			r.agent.metrics.ReloadFailed.Set(0)
		}
		if waiting != nil && waiting.cfg == cfg {
			waiting.answer <- report
			waiting = nil
		}
	}
	return waiting
}

// waits says that the store is yet to know of a configuration.
func (r *reloader) waits(cfg *config.Config) reloadReport {
	r.manager.reloads(false)
	r.agent.metrics.ReloadFailed.Set(1)
	r.log.Warn("the configuration is loaded, and takes effect once the store knows of it; until then the earlier one stays in force",
		"config", cfg.Hash)
	return reloadReport{Result: reloadWaits, Config: cfg.Hash, Before: r.agent.cfg.Load().Hash}
}

// allBlocks returns all blocks of a configuration as the store keeps those that it keeps.
func allBlocks(cfg *config.Config) []store.Block {
	list := blocksOf(cfg)
	for _, b := range cfg.Settings() {
		list = append(list, store.Block(b))
	}
	return list
}
