package chunk

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/internal/work"
)

// Plan is a plan of an agent's configuration.
type Plan struct {
	Declaration store.ChunkDeclaration
	Place       string                 // where the configuration declares it, as "file:line", for the log
	Open        func() (Source, error) // of its table; the Loop closes it
	At          string                 // what Open opens, with its password: only compared, so that a plan goes on that stays as it is
}

// Options are the parts of a Loop.
type Options struct {
	Declare Declarations
	Work    *Engine
	Plans   []Plan
	Session func() (s task.Session, joined bool)
	Steady  func() bool // nothing is declared while it reports false: after a jump of the clock agents look absent that are not
	Log     *slog.Logger
	Metrics *telemetry.Metrics
}

// Bounds of a Loop.
const (
	declareEvery = 10 * time.Second // also how soon another agent's declaration takes over
	waitEvery    = time.Second      // how often to look whether a plan is in force
	turnTimeout  = 30 * time.Second // one Turn: a look, a few statements of the source, a step
	invalidRest  = time.Minute      // a table that cannot be cut may have been changed
	longestRest  = 10 * time.Second // plans are resumed, and change
	shortestRest = 20 * time.Millisecond
	firstRetry   = 100 * time.Millisecond
	lastRetry    = 10 * time.Second
	never        = 24 * time.Hour // about: there is nothing to declare
)

// Loop declares the plans of one agent, and plans those that are in force as it declares them.
type Loop struct {
	o Options

	declared bool // the store may know of plans of this agent; Run's alone

	mu       sync.Mutex
	inForce  map[string]bool
	version  int               // of the plans
	known    int               // version of the plans of which it is known which are in force
	invalid  map[string]bool   // plans whose tables cannot be cut
	waits    map[string]string // by plan: why this agent, which plans it, plans nothing of it now
	next     []Plan            // to be the plans, once replaced has an element
	replaced chan struct{}     // has an element when there are others
}

// NewLoop returns a loop; Run runs it.
func NewLoop(o Options) *Loop {
	return &Loop{
		o: o, inForce: map[string]bool{}, invalid: map[string]bool{}, waits: map[string]string{}, version: 1, next: o.Plans,
		replaced: make(chan struct{}, 1),
	}
}

// Replace replaces the plans, at any time. They must not change any more. A plan that is declared as before, with the same place of its
// table, goes on; what is planned of any other ends, or begins anew. It does not block.
func (l *Loop) Replace(plans []Plan) {
	l.mu.Lock()
	l.next, l.version = plans, l.version+1
	l.mu.Unlock()
	select {
	case l.replaced <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, and returns nil then. Errors are logged, counted, and tried again.
func (l *Loop) Run(ctx context.Context) error {
	following := map[string]*following{}
	defer func() {
		for _, f := range following {
			f.stop()
		}
	}()
	for ctx.Err() == nil {
		l.mu.Lock()
		plans, version := l.next, l.version
		l.mu.Unlock()
		l.change(ctx, following, plans)
		l.repeat(ctx, plans, version)
	}
	return nil
}

// repeat declares those plans until others replace them, or ctx ends. None are declared once, if others were.
func (l *Loop) repeat(ctx context.Context, plans []Plan, version int) {
	said := map[string]bool{}
	for misses := 0; ctx.Err() == nil; {
		rest, err := never, error(nil)
		if len(plans) > 0 || l.declared {
			rest, err = l.declare(ctx, plans, version, said)
		}
		if misses++; err == nil {
			misses = 0
		}
		if err != nil && ctx.Err() == nil {
			rest = l.failed(err, misses)
		}
		timer := time.NewTimer(rest)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-l.replaced:
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// declare declares all plans, and notes which are in force.
func (l *Loop) declare(ctx context.Context, plans []Plan, version int, said map[string]bool) (rest time.Duration, err error) {
	session, joined := l.o.Session()
	if !joined || !l.o.Steady() {
		return waitEvery, nil
	}
	call, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	list := make([]store.ChunkDeclaration, len(plans))
	for i := range plans {
		list[i] = plans[i].Declaration
	}
	l.declared = l.declared || len(plans) > 0 // also where no answer comes
	did, err := l.o.Declare.DeclareChunks(call, session, list)
	if err != nil || !did.Known {
		return waitEvery, err
	}
	l.mu.Lock()
	clear(l.inForce)
	l.known = version
	for _, name := range did.InForce {
		l.inForce[name] = true
	}
	l.mu.Unlock()
	if l.declared = len(plans) > 0; !l.declared {
		return never, nil
	}
	for i := range plans {
		name := list[i].Spec.Name
		if !said[name] && slices.Contains(did.Refused, name) {
			said[name] = true
			l.o.Log.Error("chunks of the configuration are not planned: a plan of this name cuts another table or key, or has another "+
				"task type, and keeps them: use another name", "chunks", name, "at", plans[i].Place)
		}
	}
	l.o.Metrics.Outage.Worked(l.o.Log, "chunks")
	return declareEvery, nil
}

// Left returns the name of a plan of this agent that has more to plan now, or may have; "": none has. Those do not count that are paused or
// over, that rest until their next pass, whose table cannot be cut, or that another agent plans.
func (l *Loop) Left(ctx context.Context) (string, error) {
	l.mu.Lock()
	plans, known := l.next, l.known == l.version
	l.mu.Unlock()
	for i := range plans {
		name := plans[i].Declaration.Spec.Name
		if !known {
			return name, nil
		}
		l.mu.Lock()
		counts := l.inForce[name] && !l.invalid[name]
		l.mu.Unlock()
		if !counts {
			continue
		}
		call, cancel := context.WithTimeout(ctx, turnTimeout)
		left, err := l.o.Work.left(call, name)
		cancel()
		if left || err != nil {
			return name, err
		}
	}
	return "", nil
}

func (l *Loop) setInvalid(name string, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.invalid[name] = is
}

// Waits lists the plans that this agent plans, and whose planning has to wait, by name. It does not block.
func (l *Loop) Waits() []store.WaitingPlan {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []store.WaitingPlan
	for _, name := range slices.Sorted(maps.Keys(l.waits)) {
		list = append(list, store.WaitingPlan{Plan: name, Why: l.waits[name]})
	}
	return list
}

// setWaits notes why a plan waits; "": it does not.
func (l *Loop) setWaits(name, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.waits, name); why != "" {
		l.waits[name] = why
	}
}

func (l *Loop) plans(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inForce[name]
}

// follow plans one plan until ctx ends.
func (l *Loop) follow(ctx context.Context, p *Plan) {
	f := &follower{Loop: l, plan: p, name: p.Declaration.Spec.Name, rest: shortestRest}
	defer f.close()
	defer f.setWaits(f.name, "")
	for ctx.Err() == nil {
		if !l.plans(f.name) {
			f.noWaits()
			pause(ctx, waitEvery)
			continue
		}
		pause(ctx, f.turn(ctx))
	}
}

// follower plans one plan.
type follower struct {
	*Loop
	plan *Plan
	name string

	src     Source
	invalid string        // why the table cannot be cut, as it was logged
	waits   string        // why planning waits, as it was logged and listed
	misses  int           // turns in a row that failed
	rest    time.Duration // while there is no room for chunks
}

func (f *follower) close() {
	if f.src != nil {
		f.src.Close()
		f.src = nil
	}
}

// noWaits says that planning does not wait: another agent plans, or none.
func (f *follower) noWaits() {
	if f.waits != "" {
		f.waits = ""
		f.setWaits(f.name, "")
	}
}

// turn plans once, and returns how long to rest.
func (f *follower) turn(ctx context.Context) time.Duration {
	call, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	began := time.Now()
	did, err := f.work(call)
	f.o.Metrics.StoreDuration.WithLabelValues("chunks").Observe(time.Since(began).Seconds())
	var invalid *InvalidError
	switch {
	case ctx.Err() != nil:
		return 0
	case errors.As(err, &invalid):
		f.setInvalid(f.name, true)
		if text := invalid.Error(); text != f.invalid {
			f.invalid = text
			f.o.Log.Error("a table cannot be cut into chunks", "chunks", f.name, "error", text)
		}
		f.close() // it is checked again
		return invalidRest
	case err != nil:
		f.misses++
		return f.failed(err, f.misses)
	}
	f.misses, f.invalid = 0, ""
	f.setInvalid(f.name, false)
	f.o.Metrics.Outage.Worked(f.o.Log, "chunks")
	if did.Waits != f.waits {
		f.setWaits(f.name, did.Waits)
		if f.waits = did.Waits; did.Waits != "" {
			f.o.Log.Info("planning of chunks waits", "chunks", f.name, "for", did.Waits)
		}
	}
	if did.Chunks > 0 {
		f.o.Log.Debug("planned chunks", "chunks", f.name, "n", did.Chunks)
	}
	return f.next(did)
}

// work opens the source, if need be, and takes one turn.
func (f *follower) work(ctx context.Context) (did Turn, err error) {
	if f.src == nil {
		src, err := f.plan.Open()
		if err != nil {
			return did, err
		}
		if err := src.Check(ctx); err != nil {
			src.Close()
			return did, err
		}
		f.src = src
	}
	return f.o.Work.Turn(ctx, f.name, f.src)
}

// next returns how long to rest. While chunks are worked off faster than they are planned, it is shorter each time.
func (f *follower) next(did Turn) time.Duration {
	switch {
	case did.Chunks >= max(f.plan.Declaration.Spec.Ahead/4, 1):
		f.rest = max(f.rest/4, shortestRest)
	case did.Again == soon:
		f.rest = min(f.rest*2, soon)
	}
	switch {
	case did.Busy:
		return 0
	case did.Again == soon:
		return f.rest
	}
	return min(cmp.Or(did.Again, longestRest), longestRest)
}

// failed handles a call that failed, misses of them in a row, 1 at least: the store or the source may be out of reach.
func (l *Loop) failed(err error, misses int) time.Duration {
	l.o.Metrics.StoreErrors.WithLabelValues("chunks").Inc()
	l.o.Metrics.Outage.Failed(l.o.Log, "chunks", err)
	return work.Backoff{First: firstRetry, Last: lastRetry}.After(misses - 1)
}

// pause rests until then or the end of ctx.
func pause(ctx context.Context, rest time.Duration) {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
