package sqlite

import (
	"database/sql"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// The tenants of a type take turns, those rows without a tenant being one among them, "": a claim goes on where the last one has ended. It
// looks at turnSteps tenants at most; where these have too few rows, the next claim goes on.
const (
	turnSteps = 256
	turnShare = 10 // a round of several claims that finds nothing may take a tenth of the time
	turnRests = 5 * time.Second
)

// turns is whose turn it is, by lane.
type turns struct {
	mu sync.Mutex
	at map[lane]place
}

// lane is what one want claims from.
type lane struct {
	typ    string
	phase  task.Phase
	region string
}

// place is where a lane goes on.
type place struct {
	tenant string // whose turn it was last
	credit int    // rows that are left of that turn

	walks   int // claims, one after another, that have found nothing and not come by all tenants
	from    string
	wrapped bool // they have passed the last tenant
	took    time.Duration
	rests   time.Time // they have come by all by now, and are not repeated before then
	full    bool      // they have come by tenants with due rows that have no room
}

func newTurns() *turns { return &turns{at: map[lane]place{}} }

func (t *turns) get(of lane) place {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at[of]
}

func (t *turns) put(of lane, p place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at[of] = p
}

// wake has a lane be looked at again: rows of a tenant are due.
func (t *turns) wake(of lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.at[of]
	p.rests = time.Time{}
	t.at[of] = p
}

// member is a tenant with due rows.
type member struct {
	tenant string
	due    int  // rows, as far as they were counted
	more   bool // there may be more
	quota  int
}

// findTurns finds the rows of a want, those of its tenants by turns. some: rows of some type with a tenant wait.
func (c *wanting) findTurns(turns *turns, some bool) error {
	if !some || c.left <= 0 {
		return c.find()
	}
	first, err := c.next("")
	if err != nil {
		return err
	}
	if first == "" {
		return c.find()
	}
	of := lane{c.want.Type, c.want.Phase, c.claim.Region}
	began, last := time.Now(), turns.get(of)
	if began.Before(last.rests) {
		c.waits = last.full
		return c.find()
	}
	members, at, err := c.gather(last)
	if err != nil {
		return err
	}
	if len(members) == 0 {
		at.took += time.Since(began)
		at.full = at.full || c.waits
		c.waits = at.full
		if !c.more && at.walks > 1 {
			at.rests = time.Now().Add(min(turnShare*at.took, turnRests))
		}
		if !c.more {
			at = place{tenant: at.tenant, rests: at.rests, full: at.full}
		}
		turns.put(of, at)
		return nil
	}
	c.waits = c.waits || last.walks > 0 && last.full
	turns.put(of, c.share(members, last))
	return c.findOf(members)
}

// findOf finds the rows of tenants.
func (c *wanting) findOf(members []member) error {
	for _, m := range members {
		c.tenant, c.left = m.tenant, m.quota
		if err := c.find(); err != nil {
			return err
		}
		c.more = c.more || c.left > 0 // some were too large
	}
	c.left = 0
	slices.SortStableFunc(c.rows, func(a, b task.Task) int {
		if a.Priority != b.Priority {
			return b.Priority - a.Priority
		}
		return inOrder(a, b)
	})
	return nil
}

func (c *wanting) weight(tenant string) int { return max(c.want.Weights[tenant], 1) }

// tour is a walk along the tenants of a want, from a place on and at most once around.
type tour struct {
	at     place
	tenant string // where it is
	begun  string // where it began
	around bool   // it has passed the last tenant
	from   string // behind this one the first of the walks began that have found nothing
}

// start goes to the first tenant: that whose turn is not over, or the next one.
func (c *wanting) start(at place) (w *tour, err error) {
	w = &tour{at: at, tenant: at.tenant, from: at.tenant}
	if at.walks > 0 {
		w.from = at.from
	}
	if at.credit <= 0 {
		if w.tenant, err = c.next(w.tenant); err != nil {
			return nil, err
		}
		w.at.wrapped = w.at.wrapped || w.tenant == ""
	}
	w.begun = w.tenant
	return w, nil
}

// step goes on to the next tenant. It reports whether the tour, with the walks before it that have found nothing, has come by all.
func (c *wanting) step(w *tour) (done bool, err error) {
	w.at.credit, w.at.tenant = 0, w.tenant
	if w.tenant, err = c.next(w.tenant); err != nil {
		return false, err
	}
	end, late := w.tenant == "", w.at.walks > 0
	done = end && (w.around || late && w.at.wrapped)
	w.around = w.around || end
	w.at.wrapped = w.at.wrapped || w.around
	return done || w.around && w.tenant >= w.begun || late && w.at.wrapped && w.tenant > w.from, nil
}

// gather returns the tenants with due rows from a place on, in the order of their turns, until they have as many as are wanted.
func (c *wanting) gather(at place) (members []member, _ place, err error) {
	w, err := c.start(at)
	if err != nil {
		return nil, at, err
	}
	credit, seen := w.at.credit, 0
	for range turnSteps {
		if credit <= 0 {
			credit = c.weight(w.tenant)
		}
		n, err := c.count(w.tenant, credit)
		if err != nil {
			return nil, at, err
		}
		may, err := c.bounded(w.tenant, n)
		if err != nil {
			return nil, at, err
		}
		more := n == credit && may == n
		if n = may; n > 0 {
			members = append(members, member{tenant: w.tenant, due: n, more: more})
			seen += n
		}
		if seen >= c.left {
			return members, w.at, nil
		}
		credit = 0
		done, err := c.step(w)
		if err != nil {
			return nil, at, err
		}
		if done {
			return members, w.at, c.countAll(members, seen)
		}
	}
	c.more = true
	if len(members) == 0 {
		if w.at.walks == 0 {
			w.at.from = w.from
		}
		w.at.walks++
	}
	return members, w.at, nil
}

// countAll counts all rows of the tenants that may have more than a turn takes: all tenants together have too few so.
func (c *wanting) countAll(members []member, seen int) error {
	for i := range members {
		m := &members[i]
		if !m.more || seen >= c.left {
			continue
		}
		n, err := c.count(m.tenant, c.left)
		if err != nil {
			return err
		}
		if m.due, err = c.bounded(m.tenant, n); err != nil {
			return err
		}
	}
	return nil
}

// share gives each tenant its part of what is wanted, turn by turn, and returns where the turns go on.
func (c *wanting) share(members []member, last place) (at place) {
	left, first := c.left, true
	for again := true; again && left > 0; first = false {
		again = false
		for i := range members {
			m := &members[i]
			credit := c.weight(m.tenant)
			if first && i == 0 && m.tenant == last.tenant && last.credit > 0 {
				credit = last.credit
			}
			n := min(credit, m.due-m.quota, left)
			if n <= 0 {
				continue
			}
			m.quota += n
			left -= n
			at.tenant, at.credit = m.tenant, credit-n
			again = true
			if left == 0 {
				break
			}
		}
	}
	return at
}

// next returns the tenant behind one; "" behind the last one, where the rows without a tenant have their turn.
func (c *wanting) next(after string) (string, error) {
	return nextTenant(c.row, c.sql, c.want, c.claim.Region, after)
}

func nextTenant(row rowFunc, q *statements, w store.Want, region, after string) (first string, err error) {
	next := q.NextTenantDue
	if w.Phase == task.Rollback {
		next = q.NextTenantRollback
	}
	for _, where := range []string{"", region} {
		var tenant string
		err := row([]any{&tenant}, next, arg("type", w.Type), arg("region", where), arg("after", after))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return "", err
		}
		if err == nil && (first == "" || tenant < first) {
			first = tenant
		}
		if region == "" {
			break
		}
	}
	return first, nil
}

// count returns how many rows of a tenant are due, so many at most.
func (c *wanting) count(tenant string, most int) (due int, err error) {
	h := newHeads(c.sql, c.want, c.claim.Region, tenant)
	now := stamp(c.now)
	for due < most {
		priority, runAt, ok, err := h.next(c.row)
		if err != nil || !ok {
			return due, err
		}
		if runAt > now {
			continue
		}
		q, args := c.sql.CountLevel, []sqltext.Arg{
			arg("type", c.want.Type), arg("region", c.claim.Region), arg("priority", priority), arg("now", now), arg("limit", most-due),
		}
		switch {
		case c.want.Phase == task.Rollback && tenant != "":
			q = c.sql.CountTenantLevelRollback
		case c.want.Phase == task.Rollback:
			q = c.sql.CountLevelRollback
		case tenant != "":
			q = c.sql.CountTenantLevel
		}
		if tenant != "" {
			args = append(args, arg("tenant", tenant))
		}
		if c.want.Phase == task.Run {
			args = append(args, arg("look_past", lookPast))
		}
		var n int
		if err := c.row([]any{&n}, q, args...); err != nil {
			return due, err
		}
		due += n
	}
	return due, nil
}

// soonestOfTenants calls f with when the first row of each tenant is due, of turnSteps tenants at most.
func (t *snapshot) soonestOfTenants(w store.Want, region string, skip bool, f func(at string)) error {
	after := ""
	for range turnSteps {
		tenant, err := nextTenant(t.row, t.sql, w, region, after)
		if err != nil || tenant == "" {
			return err
		}
		at, err := t.soonest(newHeads(t.sql, w, region, tenant), skip)
		if err != nil {
			return err
		}
		f(at)
		after = tenant
	}
	return nil
}
