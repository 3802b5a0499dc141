package main

import (
	"crypto/rand"
	"strings"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/chunk/litesource"
	"github.com/leasehold/leasehold/internal/chunk/pgsource"
	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqlite"
)

// makeChunks builds what declares chunk plans and plans them. Agents may share a name, but not their holds on plans.
func (a *agent) makeChunks(plans []chunk.Plan) {
	id := a.first.Agent.Name + " " + rand.Text()[:8]
	a.chunks = chunk.NewLoop(chunk.Options{
		Declare: a.store, Work: chunk.NewEngine(a.store, id), Plans: plans, Session: a.engine.Session,
		Steady: a.engine.Steady, Log: a.log, Metrics: a.metrics,
	})
}

// chunkPlans lists the chunk plans of a configuration. A source without a URL is in the store.
func (a *agent) chunkPlans(cfg *config.Config) (plans []chunk.Plan) {
	for i := range cfg.Chunks {
		c := &cfg.Chunks[i]
		at := c.Source
		if at.URL == "" {
			at.URL = a.at
		}
		if at.OldestTransaction > 0 && strings.HasPrefix(at.URL, "sqlite:") {
			a.log.Warn("oldest_transaction has no effect on a SQLite file: use when", "chunks", c.Spec.Name)
		}
		plans = append(plans, chunk.Plan{
			Declaration: store.ChunkDeclaration{Spec: c.Spec, Source: store.ChunkSource{
				URL: config.RedactText(c.Source.URL), Where: c.Source.Where, OldestTransaction: c.Source.OldestTransaction, When: c.Source.When,
			}},
			Place: cfg.Place("chunks", c.Spec.Name), At: at.URL,
			Open: func() (chunk.Source, error) { return openSource(&c.Spec, at) },
		})
	}
	return plans
}

// openSource opens the table of a plan, by its URL.
func openSource(spec *chunk.Spec, s config.ChunkSource) (chunk.Source, error) {
	if strings.HasPrefix(s.URL, "sqlite:") {
		path, err := sqlite.ParseURL(s.URL)
		if err != nil {
			return nil, err
		}
		return litesource.New(litesource.Options{Path: path, Table: spec.Table, Key: spec.Key, Where: s.Where, When: s.When})
	}
	return pgsource.New(pgsource.Options{
		URL: s.URL, Table: spec.Table, Key: spec.Key, Where: s.Where, OldestTransaction: s.OldestTransaction, When: s.When,
	})
}
