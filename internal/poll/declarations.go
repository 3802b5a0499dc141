package poll

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Declarations are what one configuration declares for the engine. All of it can be replaced at once while the engine runs
// (Engine.Replace); the types they point to must not change.
type Declarations struct {
	Types   []*task.Type
	Workers int           // attempts at once; 0: claims nothing
	Poll    time.Duration // how often to look for due tasks when nothing wakes the loop
	Drain   time.Duration // how long running attempts may go on once draining has begun
	Region  string        // rows of this region are claimed, and rows of none; "": rows of none only
	Config  string        // hash of the configuration
	// Adopted is called once, when the engine goes by these declarations and before it claims under them; never, where others
	// replace them before that. Not called for those that the engine begins with. It must not block; nil: no call.
	Adopted func()
}

// generation is one set of declarations with all that follows from it. It never changes once it is in use: who decides something
// reads the engine's current one once, and an attempt keeps the one that its row was claimed under.
type generation struct {
	Declarations
	types    []*declared
	byName   map[string]*declared // by row type, aliases included
	policies map[task.PolicyHash]store.NamedPolicy
}

// declared is a declared type.
type declared struct {
	typ     *task.Type
	workers int // attempts at once
	policy  task.PolicyHash
	phases  []task.Phase // that are claimed: rollbacks only where the type has one
	per     int          // rows that one slot runs at once, at most: 1, or the most of a request
	meters  meters       // since it is in use: those of a type that was declared before may have been removed until then
}

func newGeneration(d Declarations) *generation {
	d.Types = slices.Clone(d.Types)
	g := &generation{Declarations: d, byName: make(map[string]*declared), policies: make(map[task.PolicyHash]store.NamedPolicy)}
	for _, t := range d.Types {
		x := &declared{
			typ: t, workers: d.Workers, policy: t.Policy.Hash(t.Name), phases: []task.Phase{task.Run}, per: 1,
		}
		if n := t.AtOnce(); n > 0 { // no slot is taken by an attempt that no process is there for
			x.workers = min(n, d.Workers)
		}
		if t.Rollback != nil {
			x.phases = append(x.phases, task.Rollback)
		}
		for _, phase := range x.phases {
			if b := x.batch(phase); b != nil {
				x.per = max(x.per, b.Max)
			}
		}
		for _, name := range t.Names() {
			g.byName[name] = x
		}
		g.types = append(g.types, x)
		g.policies[x.policy] = store.NamedPolicy{Type: t.Name, Policy: t.Policy}
	}
	return g
}

// batch returns how many tasks of a phase its target gets in one request; nil: one.
func (d *declared) batch(phase task.Phase) *task.Batch {
	if w, ok := d.typ.TargetOf(phase).(*task.Webhook); ok {
		return w.Batch
	}
	return nil
}

// describe returns the description of a session that goes by these declarations.
func (g *generation) describe(a store.Agent) store.Agent {
	a.Region, a.Config, a.Workers, a.Policies = g.Region, g.Config, g.Workers, g.policies
	a.Types, a.Limits, a.Sequences, a.Redact = nil, nil, nil, map[string][]string{}
	for _, t := range g.Types {
		a.Types = append(a.Types, t.Names()...)
		if l := limitOf(t); bounded(l) {
			a.Limits = append(a.Limits, l)
		}
		for _, name := range t.Names() {
			if len(t.Redact) > 0 {
				a.Redact[name] = t.Redact
			}
			if t.OnFailure != "" {
				a.Sequences = append(a.Sequences, store.TypeSequence{Type: name, OnFailure: t.OnFailure})
			}
		}
	}
	return a
}

// limitOf returns what a type declares of limits.
func limitOf(t *task.Type) store.TypeLimit {
	return store.TypeLimit{
		Name: t.Name, Types: t.Names(), Most: t.Limit, Rate: t.Rate, Burst: t.Burst,
		Tenant: store.TenantLimit{Most: t.Tenant.Limit, Rate: t.Tenant.Rate, Burst: t.Tenant.Burst},
	}
}

// bounded reports whether a limit bounds anything.
func bounded(l store.TypeLimit) bool { return l.Most > 0 || l.Rate > 0 || l.Tenant.Bounds() }

// sources returns what a lane of the type claims, none of it known to be exhausted.
func (d *declared) sources() (all []*source) {
	for _, name := range d.typ.Names() {
		for _, phase := range d.phases {
			all = append(all, &source{name: name, phase: phase})
		}
	}
	return all
}

// Replace has the engine go by other declarations. They take effect between two claims, once the store has their policies
// and knows what the session declares. Attempts that run keep the declaration that they started with; rows that were
// claimed and have not started are released. What the engine knows of a type that stays, by its name, stays too: what
// runs in its slots, its rate and its metrics. Until the store has answered, the old declarations hold; of several
// replacements the last one counts. It does not block.
func (e *Engine) Replace(d Declarations) {
	g := newGeneration(d)
	e.keeper.Declare(g.describe(e.o.Agent), func() {
		e.next.Store(g)
		e.wake.turn()
	})
}

// declarations returns the current generation. It changes between two turns of the loop only, so the loop may ask as
// often as it likes within one; all others ask once for each decision.
func (e *Engine) declarations() *generation { return e.current.Load() }

// adopt goes by the declarations of Replace from now on, and reports whether there were any. It is the loop's, and no claim
// is under way or waits to be read back: a row is started by the declaration that it was claimed under.
func (e *Engine) adopt() bool {
	if e.next.Load() == nil {
		return false
	}
	g, before := e.next.Swap(nil), e.declarations()
	e.use(g)
	if g.Adopted != nil {
		g.Adopted()
	}
	e.starving.Store(0) // what could not be claimed may be no longer wanted
	for _, a := range e.slots.replace(g) {
		e.releaseUnstarted(a, "the configuration has changed")
	}
	e.former.add(before, g, e.o.Clock.Now())
	e.wake.by(e.o.Clock.Now() + spread(g.Poll))
	e.log.Info("declarations replaced", "config", g.Config, "types", len(g.types), "workers", g.Workers)
	return true
}

// use makes a generation the current one. Policies are found by their hash, so those of earlier generations stay known for a while.
func (e *Engine) use(g *generation) {
	for _, d := range g.types {
		d.meters = newMeters(e.o.Metrics, e.o.Activity, d.typ)
	}
	e.policies.put(g.policies)
	e.current.Store(g)
	e.o.Metrics.Workers.Set(float64(g.Workers))
	e.paused.gauge()
}
