package postgres

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// The tenants of a lane take turns: a claim of it asks for a few rows of each tenant whose turn it is, those without a tenant being one
// among them. Lanes of which no rows with a tenant are known are claimed as if there were no tenants. That there are some, a claim finds
// that gets nothing, or a look for what is due next; else a claim looks once in tenantsEvery.
const (
	tenantsEvery = time.Second
	// turnSteps bounds the statements of a claim of one want. Mostly it is one or two: more come where many tenants have a row or two.
	turnSteps = 16
)

// turns are the rings of all lanes in which rows with a tenant were seen, or are declared.
type turns struct {
	now    func() time.Time
	every  time.Duration // how often to look whether there are tenants
	mu     sync.Mutex
	rings  map[lane]*ring
	probed time.Time
}

func newTurns() *turns {
	return &turns{now: time.Now, every: tenantsEvery, rings: map[lane]*ring{}}
}

// meet notes that rows with a tenant wait in these lanes.
func (t *turns) meet(lanes ...lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range lanes {
		r := t.rings[of]
		if r == nil {
			r = &ring{tenants: []string{""}}
			t.rings[of] = r
		}
		r.seen = t.now()
	}
}

// known reports whether the tenants of a lane take turns.
func (t *turns) known(of lane) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rings[of]
	if r != nil && t.now().Sub(r.seen) > ringLasts {
		delete(t.rings, of)
		r = nil
	}
	return r != nil
}

// due reports whether to look again whether there are tenants, and that this is done now.
func (t *turns) due() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if now.Sub(t.probed) < t.every {
		return false
	}
	t.probed = now
	return true
}

// of runs f on the ring of a lane, which there is from then on.
func (t *turns) of(of lane, f func(r *ring, now time.Time)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rings[of]
	if r == nil {
		r = &ring{tenants: []string{""}, seen: t.now()}
		t.rings[of] = r
	}
	f(r, t.now())
}

// laneOf returns the lane of a want.
func laneOf(c store.Claim, w store.Want) lane {
	return lane{typ: w.Type, phase: w.Phase, region: c.Region}
}

// partTurns parts the wants of a claim: those whose tenants take turns, and the others.
func (s *Store) partTurns(ctx context.Context, conn *pgx.Conn, c store.Claim) (plain, turned store.Claim, err error) {
	if s.turns.due() {
		if err := s.probe(ctx, conn, c); err != nil {
			return c, store.Claim{}, err
		}
	}
	plain, turned = c, c
	plain.Wants, turned.Wants = nil, nil
	for _, w := range c.Wants {
		if of := laneOf(c, w); w.Weights != nil || s.turns.known(of) {
			turned.Wants = append(turned.Wants, w)
		} else {
			plain.Wants = append(plain.Wants, w)
		}
	}
	return plain, turned, nil
}

// probe finds the wants of which rows with a tenant wait.
func (s *Store) probe(ctx context.Context, conn *pgx.Conn, c store.Claim) error {
	types, rollbacks := make([]string, len(c.Wants)), make([]bool, len(c.Wants))
	for i, w := range c.Wants {
		types[i], rollbacks[i] = w.Type, w.Phase == task.Rollback
	}
	var place int
	return forEach(ctx, conn, []any{&place}, func() error {
		s.turns.meet(laneOf(c, c.Wants[place-1]))
		return nil
	}, s.sql.TenantTypes, arg("types", types), arg("rollbacks", rollbacks), arg("regions", regions(c.Region)))
}

// turning is the claim of one want whose tenants take turns.
type turning struct {
	*Store
	claim  store.Claim // with this one want
	want   store.Want
	lane   lane
	left   int                   // rows that are wanted still
	short  map[string]bool       // tenants of which there was nothing more
	before []task.Task           // that the claim has taken of other wants
	bound  map[string]tenantRoom // tenants that their bounds kept rows from
	known  map[string]bool       // tenants that a walk of this claim has found rows of, and room for
	waits  bool                  // rows are due of tenants that have no room
	all    claimed
	bytes  int64 // of the documents so far
}

// claimTurns claims rows of a want by turns.
func (s *Store) claimTurns(ctx context.Context, conn *pgx.Conn, c store.Claim, w store.Want, before []task.Task) (claimed, error) {
	t := &turning{Store: s, claim: c, want: w, lane: laneOf(c, w), left: w.N, short: map[string]bool{}, before: before,
		bound: map[string]tenantRoom{}, known: map[string]bool{}}
	if t.claim.Limited == nil {
		t.claim.Limited = map[string]store.Room{}
	}
	var walk bool
	s.turns.of(t.lane, func(r *ring, now time.Time) {
		r.add([]string{""}) // of rows without a tenant a walk says nothing
		r.free(w.Freed, now)
		walk = now.Sub(r.walked) >= r.every
	})
	for step := 0; t.left > 0; step++ {
		if step == turnSteps {
			t.all.cut = true
			break
		}
		var plan []turn
		if !walk {
			s.turns.of(t.lane, func(r *ring, _ time.Time) { plan = r.plan(t.left, t.weight) })
		}
		if len(plan) > 0 {
			more, err := t.take(ctx, conn, plan)
			if err != nil {
				return t.all, err
			}
			if !more {
				break
			}
			continue
		}
		found, complete, err := t.find(ctx, conn)
		if err != nil {
			return t.all, err
		}
		if walk { // it was time for one: the known ones come next
			walk = false
			continue
		}
		if !found {
			t.all.cut = t.all.cut || !complete
			break
		}
	}
	t.noteWaits()
	return t.all, nil
}

func (t *turning) weight(tenant string) int { return max(t.want.Weights[tenant], 1) }

// take claims the rows of turns. It returns false where nothing more of the want is to be claimed.
func (t *turning) take(ctx context.Context, conn *pgx.Conn, plan []turn) (more bool, err error) {
	taken, cut := map[string]int{}, false
	for _, part := range segments(plan) {
		got, err := t.claimPart(ctx, conn, part)
		if err != nil {
			return false, err
		}
		for i := range got.tasks {
			taken[got.tasks[i].Tenant]++
		}
		t.left -= len(got.tasks)
		if got, err = t.measured(ctx, conn, got); err != nil {
			return false, err
		}
		t.all = t.all.with(got)
		cut = cut || got.cut
		if t.full() || got.cut && !got.held { // rows of one tenant that wait for a lock keep none of another
			cut = true
			break
		}
	}
	t.turns.of(t.lane, func(r *ring, now time.Time) {
		short := t.held(r, plan, taken, now)
		if cut { // what came short may have more
			r.drop(short)
			r.rewind(plan, taken)
			return
		}
		for _, p := range plan {
			if taken[p.tenant] < p.n {
				short[p.tenant] = true
			}
		}
		r.drop(short)
		maps.Copy(t.short, short)
		r.seen = now
	})
	return !cut, nil
}

// measured counts the bytes of what was claimed. Documents that were left out are read for that where they are to be counted, and more rows
// are to come: else the whole claim reads them at its end.
func (t *turning) measured(ctx context.Context, conn *pgx.Conn, got claimed) (claimed, error) {
	if got.bare && t.claim.Bytes > 0 && t.left > 0 {
		all, err := t.claimed(ctx, conn, int64(t.claim.Session), t.claim.Number)
		if err != nil {
			return got, err
		}
		mine := map[task.ID]bool{}
		for i := range got.tasks {
			mine[got.tasks[i].ID] = true
		}
		got.tasks = slices.DeleteFunc(all, func(row task.Task) bool { return !mine[row.ID] })
		got.bare = false
	}
	for i := range got.tasks {
		t.bytes += documentsOf(&got.tasks[i])
	}
	return got, nil
}

// full reports whether the bound on bytes, or a limit, leaves no room.
func (t *turning) full() bool {
	if t.claim.Bytes > 0 && t.bytes >= t.claim.Bytes && t.left > 0 {
		t.all.cut = true
		return true
	}
	room, limited := t.claim.Limited[t.want.Type]
	return limited && (room.Busy || t.taken(room.Limit) >= room.Rows)
}

// taken returns how many rows of a limit the whole claim has taken so far.
func (t *turning) taken(limit string) int {
	return sharing(t.claim.Limited, limit, t.before) + sharing(t.claim.Limited, limit, t.all.tasks)
}

func documentsOf(t *task.Task) int64 {
	return int64(len(t.Payload) + len(t.RollbackPayload) + len(t.Result) + len(t.Checkpoint))
}

// segments parts turns where the rows without a tenant have theirs, which another statement claims: so nothing that comes later takes what
// room there is from what comes first.
func segments(plan []turn) [][]turn {
	i := slices.IndexFunc(plan, func(p turn) bool { return p.tenant == "" })
	if i < 0 {
		return [][]turn{plan}
	}
	parts := [][]turn{plan[:i], plan[i : i+1], plan[i+1:]}
	return slices.DeleteFunc(parts, func(p []turn) bool { return len(p) == 0 })
}

// claimPart claims the rows of one segment.
func (t *turning) claimPart(ctx context.Context, conn *pgx.Conn, part []turn) (claimed, error) {
	c := t.claim
	if c.Bytes > 0 {
		c.Bytes = max(c.Bytes-t.bytes, 1)
	}
	c.Wants = make([]store.Want, len(part))
	for i, p := range part {
		c.Wants[i] = t.want
		c.Wants[i].N = p.n
	}
	var tenants []string
	if part[0].tenant != "" {
		for _, p := range part {
			tenants = append(tenants, p.tenant)
		}
	}
	switch {
	case t.limits.has(t.want.Type):
		return t.claimLimitedPart(ctx, conn, c, tenants)
	case tenants == nil:
		return t.claimBeside(ctx, conn, c)
	}
	return t.claimTenants(ctx, conn, c, tenants)
}

// claimLimitedPart claims rows of a type with a limit, and notes how much room that had before the whole claim.
func (t *turning) claimLimitedPart(ctx context.Context, conn *pgx.Conn, c store.Claim, tenants []string) (got claimed, err error) {
	rooms := map[string]store.Room{}
	c.Limited = rooms
	if tenants == nil {
		got, err = t.claimLimited(ctx, conn, c)
	} else {
		got, err = t.claimLimitedTenants(ctx, conn, c, tenants, t.bound)
	}
	if err != nil {
		return got, err
	}
	for typ, room := range rooms {
		was := t.claim.Limited[typ]
		t.claim.Limited[typ] = room
		room.Rows += t.taken(room.Limit)
		room.Tenants, room.TenantNext = was.Tenants, was.TenantNext // of another want of the type
		t.claim.Limited[typ] = room
	}
	return got, nil
}

// claimTenants claims rows of tenants, one for each want, as claimBeside claims others.
func (s *Store) claimTenants(ctx context.Context, conn *pgx.Conn, c store.Claim, tenants []string) (all claimed, err error) {
	look := s.lowWater.lookOf(c, tenants)
	if all, err = s.claimOf(ctx, conn, s.sql.ClaimTenants, c, look); err != nil {
		return all, err
	}
	again := c
	again.Wants = s.lowWater.note(look, all.tasks, all.cut)
	if len(again.Wants) == 0 {
		return all, nil
	}
	left := make([]string, len(look.again))
	for i, place := range look.again {
		left[i] = tenants[place]
	}
	look = s.lowWater.lookOf(again, left)
	more, err := s.claimOf(ctx, conn, s.sql.ClaimTenants, again, look)
	if err != nil {
		return all, err
	}
	s.lowWater.note(look, more.tasks, more.cut)
	return all.with(more), nil
}
