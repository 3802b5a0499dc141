package chunk

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// Bounds of one Turn.
const (
	obstacles  = 100              // that one look returns, unless it has to return more to come further
	batched    = 64               // chunks of one step
	holdFor    = 10 * time.Second // longer than a Turn takes
	turnFor    = 3 * time.Second  // the source is read for about so long
	fullShare  = 19               // rest after a pass over the whole table, in multiples of the time for which it read the source: 5%
	vainShare  = 39               // and after a pass behind the highest key that found nothing: half of that, see end
	soon       = time.Second      // rest while there is no room for more chunks
	throttled  = 5 * time.Second  // and while planning has to wait
	clockSlack = time.Second      // by which the store's clock may differ from one look to the next
)

// Engine plans: it decides what the next ranges of a plan are, and has a store insert them. Between calls it keeps nothing but how far
// it has looked in vain, and for how long. It holds no lock: a step applies where what it saw is still so. Of many agents, one plans.
type Engine struct {
	store Store
	id    string // of this agent

	mu   sync.Mutex
	vain map[string]vain // by plan
	wide map[string]int  // by plan: how many obstacles a look returns, where that is more than ordinary
}

// vain is a stretch of the table behind the cursor that was looked at and has no rows.
type vain struct {
	pass int
	from *Key          // the cursor that it begins with
	seen *Key          // how far it goes; nil: nowhere
	cost time.Duration // of looks that no step has counted yet
	all  time.Duration // of all looks behind the last chunk, as far as this agent made them
}

// NewEngine returns an engine of one agent.
func NewEngine(s Store, id string) *Engine {
	return &Engine{store: s, id: id, vain: map[string]vain{}, wide: map[string]int{}}
}

// Turn is what a call has done.
type Turn struct {
	Chunks int           // that it planned
	Busy   bool          // there may be more to do at once
	Waits  string        // why nothing is planned now, though there may be rows; "": for no reason of the source's
	Again  time.Duration // when to look again at the latest, where not Busy; 0: never, before the plan changes
}

// Turn plans the next ranges of a plan, by a source of its table. It is one look, some reading of the source, and one step.
func (e *Engine) Turn(ctx context.Context, name string, src Source) (did Turn, err error) {
	look, err := e.store.LookPlan(ctx, name, e.width(name))
	if err != nil {
		return did, err
	}
	p := &look.Plan
	switch {
	case p.Paused || p.Over:
		return did, nil
	case p.Holder != e.id && held(look) > 0:
		return Turn{Again: held(look)}, nil
	case !p.Planning && due(look) > 0:
		return Turn{Again: due(look)}, nil
	case look.Live >= look.Spec.Ahead:
		return Turn{Again: soon}, nil
	case !p.Planning || p.Holder != e.id:
		return e.begin(ctx, look, src)
	}
	if reason, err := src.Throttled(ctx); err != nil || reason != "" {
		return Turn{Waits: reason, Again: throttled}, err
	}
	return e.plan(ctx, look, src)
}

// left reports whether a plan has more to plan now, by this agent.
func (e *Engine) left(ctx context.Context, name string) (bool, error) {
	look, err := e.store.LookPlan(ctx, name, obstacles)
	if err != nil {
		return false, err
	}
	p := &look.Plan
	return !p.Paused && !p.Over && (p.Holder == e.id || held(look) <= 0) && (p.Planning || due(look) <= 0), nil
}

// held returns for how long the plan is still held. One that would be held for longer than anybody holds one was held before the
// store's clock was set back.
func held(look *store.ChunkLook) time.Duration {
	left := look.Plan.HeldUntil.Sub(look.Now)
	if left > holdFor+clockSlack {
		return 0
	}
	return max(left, 0)
}

// due returns how long it is until the next pass begins; 0: it may begin now. It is never longer than the plan declares, or rests after
// its last pass, also where the store's clock was set back.
func due(look *store.ChunkLook) time.Duration {
	p := &look.Plan
	if p.Pass == 0 {
		return 0
	}
	next := p.GrowAt
	if p.RepeatAt.Before(next) {
		next = p.RepeatAt
	}
	left := next.Sub(look.Now)
	if tooLate(look, left) {
		return 0
	}
	return max(left, 0)
}

// tooLate reports whether no pass can have put off the next one for so long: the store's clock was set back since, or the plan looks for
// rows more often now.
func tooLate(look *store.ChunkLook, left time.Duration) bool {
	return left > max(look.Spec.Follow, look.Plan.Rest)+clockSlack
}

// begin takes the plan for this agent and, where no pass is being planned, begins the next one.
func (e *Engine) begin(ctx context.Context, look *store.ChunkLook, src Source) (did Turn, err error) {
	next := look.Plan
	s := &store.ChunkStep{Name: look.Spec.Name}
	if !next.Planning {
		next.Pass++
		next.Planning, next.Chunks, next.Cost = true, 0, 0
		next.Full = look.Plan.High == nil || !look.Plan.RepeatAt.After(look.Now) || tooLate(look, look.Plan.GrowAt.Sub(look.Now))
		next.From = next.High
		if next.Full {
			next.From = nil
		}
		next.Cursor = next.From
		s.First, s.Last, err = src.Ends(ctx)
		if err != nil && !errors.Is(err, ErrSlow) { // they are for show: many dead rows at an end keep no pass from its work
			return did, err
		}
	}
	s.After = next
	applied, err := e.apply(ctx, look, s)
	return Turn{Busy: applied, Again: time.Second}, err
}

// plan carries a pass on.
func (e *Engine) plan(ctx context.Context, look *store.ChunkLook, src Source) (did Turn, err error) {
	size, perRow := nextSize(look.Spec.Size, look.Plan.Size, look.Plan.PerRow, look.Rows, look.Took)
	before := e.recall(look)
	w := newWalk(look, src, size, before.seen)
	ended, err := w.run(ctx)
	if err != nil && len(w.items) == 0 {
		return did, err // what was found before an error is good
	}
	e.widen(w, ended)
	spent, behind := before.cost+w.cost, w.vain
	if w.chunks == 0 {
		behind += before.all
	}
	if len(w.items) == 0 && !ended && look.Plan.HeldUntil.Sub(look.Now) > holdFor/2 {
		e.remember(look, w, spent, behind)
		return Turn{Busy: true}, nil
	}
	next := look.Plan
	next.Size, next.PerRow = size, perRow
	if look.Sampled != "" {
		next.Sampled = look.Sampled
	}
	next.Cursor = w.at
	next.Cost += spent
	if next.Chunks += w.chunks; w.chunks > 0 {
		next.Sizes = noteSize(next.Sizes, size)
	}
	if ended {
		if err := end(ctx, look, &next, src, behind); err != nil {
			return did, err
		}
	}
	applied, err := e.apply(ctx, look, &store.ChunkStep{Name: look.Spec.Name, After: next, Items: w.items, Sealed: ended})
	if err != nil || !applied {
		return Turn{Again: soon}, err
	}
	e.remember(look, w, 0, behind)
	did = Turn{Chunks: w.chunks, Busy: !ended && look.Live+w.chunks < look.Spec.Ahead, Again: soon}
	if ended {
		did.Again = look.Spec.Follow
	}
	return did, nil
}

// width is how many obstacles of a plan a look returns.
func (e *Engine) width(plan string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(e.wide[plan], obstacles)
}

// widen has the next look return twice as many obstacles where those of this one are all behind the walk already, and keep it from those that
// follow, or where it needs all of them: an operator has brought back many ranges that were cut anew since. The next pass begins as ever.
func (e *Engine) widen(w *walk, ended bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	plan := w.look.Spec.Name
	switch {
	case ended:
		delete(e.wide, plan)
	case w.short, w.look.Plan.Full && w.look.More && len(w.left) == 0 && len(w.items) == 0:
		e.wide[plan] = 2 * max(e.wide[plan], obstacles)
	}
}

// end ends a pass. For how long it read the source sets when the next ones may begin: passes over the whole table, and what those behind
// the highest key read in vain, take 5% of the time together. In vain is all that they read where they find nothing, and else what they
// read behind their last chunk. Each of the latter puts off the next pass over the whole table by half of its own rest, so that this is
// reached at last.
func end(ctx context.Context, look *store.ChunkLook, next *store.ChunkPlan, src Source, behind time.Duration) error {
	next.Planning, next.Holder, next.HeldUntil = false, "", time.Time{}
	higher := next.Cursor != nil
	if higher && next.High != nil {
		n, err := src.Compare(ctx, *next.High, *next.Cursor)
		if err != nil {
			return err
		}
		higher = n < 0
	}
	if higher {
		next.High = next.Cursor
	}
	if look.Spec.Follow <= 0 {
		next.Over = true
		return nil
	}
	next.Rest = 0
	cost := next.Cost.Truncate(time.Microsecond)
	if next.Full {
		next.RepeatAt = look.Now.Add(max(look.Spec.Follow, fullShare*cost))
		if next.High == nil { // the next pass is over the whole table, too
			next.Rest = fullShare * cost
		}
	} else {
		if next.Chunks > 0 {
			cost = min(cost, behind.Truncate(time.Microsecond))
		}
		next.Rest = vainShare * cost
		next.RepeatAt = next.RepeatAt.Add((fullShare + 1) * cost)
	}
	next.GrowAt = look.Now.Add(max(look.Spec.Follow, next.Rest))
	return nil
}

// apply has the store apply a step, which also prolongs this agent's hold on the plan.
func (e *Engine) apply(ctx context.Context, look *store.ChunkLook, s *store.ChunkStep) (bool, error) {
	s.Before = look.Plan.Version
	s.After.Version = s.Before + 1
	if !s.After.Full && look.Plan.HeldUntil.Sub(look.Now) > holdFor+clockSlack { // no plan is held for so long: the clock was set back
		s.After.RepeatAt = look.Now
	}
	if s.After.Planning {
		s.After.Holder, s.After.HeldUntil = e.id, look.Now.Add(holdFor)
	}
	return e.store.ApplyChunks(ctx, s)
}

// remember keeps how far a walk went in vain behind its last item, the cost of reading that no step has counted yet, and what all
// reading behind the last chunk has cost.
func (e *Engine) remember(look *store.ChunkLook, w *walk, cost, all time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.vain[look.Spec.Name] = vain{pass: look.Plan.Pass, from: w.at, seen: w.seen, cost: cost, all: all}
}

// recall returns what was remembered of this very stretch.
func (e *Engine) recall(look *store.ChunkLook) vain {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.vain[look.Spec.Name]
	if v.pass != look.Plan.Pass || !same(v.from, look.Plan.Cursor) {
		return vain{}
	}
	return v
}
