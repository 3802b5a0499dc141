package postgres

import (
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// A claimed row leaves a dead entry at the low end of its index range, and while a long transaction anywhere keeps a
// snapshot, these stay, and every claim walks over all of them first. So the agent remembers how far it has come in
// each range, its low-water mark, and looks from there on.
//
// Rows can appear below a mark: inserted by a transaction that began earlier, released with their old due time, or
// skipped while another transaction had them locked. A lane is therefore looked at from zero when it comes back short, and
// at least every lowLeast. Where that look turns out expensive, it is made less often, but at least every lowMost. And
// there are no marks before lowAfter rows have been claimed without an end in sight: until then they would save
// little, and the order of rows is exact.
const (
	lowAfter = 100
	lowLeast = time.Second
	lowRose  = 20 * time.Millisecond // at least, after rows that waited for their locks were promoted here
	lowMost  = 5 * time.Second
	// lowAfterTenant is lowAfter for one of many tenants, whose rows are taken a few at a time.
	lowAfterTenant = 5
	// lowLanes is how many lanes are remembered: more only where tenants come and go, and then all are looked at from zero.
	lowLanes = 4 * ringMost
	lowShare = 20 // a look from zero may take a 20th of the time
)

type lowWater struct {
	now   func() time.Time
	mu    sync.Mutex
	lanes map[lane]*lowMarks
	risen time.Time // when rose was called last
}

// lane is what one want claims from.
type lane struct {
	typ    string
	phase  task.Phase
	region string // the agent's
	tenant string // "": rows of none
}

// lowMarks are the low-water marks of a lane.
type lowMarks struct {
	looked time.Time     // when it was last looked at from zero
	took   time.Duration // that look
	every  time.Duration // how often that is due
	taken  int           // rows claimed since the lane was last short
	marks  map[indexRange]position
}

// indexRange is one index range of a lane.
type indexRange struct {
	region   string
	priority int
}

// position is the place of a row in its range.
type position struct {
	runAt time.Time
	id    task.ID
}

func (m position) less(o position) bool {
	return m.runAt.Before(o.runAt) || m.runAt.Equal(o.runAt) && m.id < o.id
}

// after returns after how many rows the lane has marks.
func (l lane) after() int {
	if l.tenant != "" {
		return lowAfterTenant
	}
	return lowAfter
}

// look is one claim's view of the marks.
type look struct {
	claim   store.Claim
	tenants []string // by want, of a claim of tenants; nil: of rows without
	started time.Time
	zero    []bool      // by want: looked at from zero
	at      []time.Time // marks by (want, region, priority) from high to low; empty: none. Of a claim of tenants: those that there are
	id      []int64
	again   []int       // places of the wants that note has returned
	sparse  tenantMarks // of a claim of tenants
}

// lane returns the lane of a want.
func (l *look) lane(i int) lane {
	of := lane{typ: l.claim.Wants[i].Type, phase: l.claim.Wants[i].Phase, region: l.claim.Region}
	if l.tenants != nil {
		of.tenant = l.tenants[i]
	}
	return of
}

func newLowWater() *lowWater { return &lowWater{now: time.Now, lanes: map[lane]*lowMarks{}} }

// look returns the marks for a claim.
func (f *lowWater) look(c store.Claim) *look { return f.lookOf(c, nil) }

// lookOf returns the marks for a claim, of the rows of one tenant for each want unless there are none.
func (f *lowWater) lookOf(c store.Claim, tenants []string) *look {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &look{claim: c, tenants: tenants, started: f.now(), zero: make([]bool, len(c.Wants)), at: []time.Time{}, id: []int64{}}
	l.sparse = tenantMarks{make([]int32, len(tenants)), make([]int32, len(tenants)), []int32{}}
	if len(f.lanes) > lowLanes {
		clear(f.lanes)
	}
	where := regions(c.Region)
	for i := range c.Wants {
		of := l.lane(i)
		b := f.lanes[of]
		if b == nil || b.taken < of.after() || l.started.Sub(b.looked) >= b.every {
			l.zero[i] = true
			continue
		}
		if tenants != nil {
			l.add(i, where, b.marks)
			continue
		}
		if len(l.at) == 0 {
			// The zero time is below every row: the table holds none before the year 1.
			l.at = make([]time.Time, len(c.Wants)*len(where)*priorities)
			l.id = make([]int64, len(l.at))
		}
		for of, m := range b.marks {
			if j := slices.Index(where, of.region); j >= 0 {
				place := (i*len(where)+j)*priorities + highest - of.priority
				l.at[place], l.id[place] = m.runAt, int64(m.id)
			}
		}
	}
	return l
}

// tenantMarks says where the marks of the wants of tenants are, which are many and have few marks.
type tenantMarks struct {
	first  []int32 // by want: the number of its first mark, from 1 on; 0: it has none
	count  []int32 // by want: how many
	places []int32 // by mark: its place in (region, priority) from high to low, from 1 on
}

// add adds the marks of a tenant's want.
func (l *look) add(want int, where []string, marks map[indexRange]position) {
	first := len(l.at)
	for of, m := range marks {
		if j := slices.Index(where, of.region); j >= 0 {
			l.at, l.id = append(l.at, m.runAt), append(l.id, int64(m.id))
			l.sparse.places = append(l.sparse.places, int32(j*priorities+highest-of.priority+1))
		}
	}
	if n := len(l.at) - first; n > 0 {
		l.sparse.first[want], l.sparse.count[want] = int32(first+1), int32(n)
	}
}

// note takes what a look found: it raises the marks of lanes that came back full, drops those that came back short,
// and returns what is still wanted of lanes that were short above a mark. Where a claim was cut, what came back short says
// nothing.
func (f *lowWater) note(l *look, rows []task.Task, cut bool) (again []store.Want) {
	f.mu.Lock()
	defer f.mu.Unlock()
	took, of := f.now().Sub(l.started), byLane(l, rows)
	for i, w := range l.claim.Wants {
		if w.N == 0 { // a limit left no room for it: nothing was looked at
			continue
		}
		lane := l.lane(i)
		mine := of[lane]
		n := len(mine)
		if n < w.N && !cut {
			delete(f.lanes, lane)
			if !l.zero[i] {
				w.N -= n
				again, l.again = append(again, w), append(l.again, i)
			}
			continue
		}
		b := f.lanes[lane]
		if b == nil && !l.zero[i] {
			continue // another claim has found the lane short: the next one looks from zero
		}
		if b == nil {
			b = &lowMarks{}
			f.lanes[lane] = b
		}
		if l.zero[i] {
			b.looked, b.took, b.every, b.marks = l.started, took, min(max(lowLeast, lowShare*took), lowMost), map[indexRange]position{}
			if !f.risen.Before(l.started) { // the look may have missed them
				b.every = max(lowRose, lowShare*took)
			}
		}
		b.taken += n
		b.raise(mine)
	}
	return again
}

// rose notes that rows may be claimed that have waited for longer than others, and so may be below the marks.
func (f *lowWater) rose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.risen = f.now()
	for _, b := range f.lanes {
		b.every = min(b.every, max(lowRose, lowShare*b.took))
	}
}

// has reports whether a claimed row came from the lane.
func (l lane) has(t *task.Task) bool { return t.Type == l.typ && t.Phase() == l.phase }

// byLane groups claimed rows.
func byLane(l *look, rows []task.Task) map[lane][]*task.Task {
	all := make(map[lane][]*task.Task, len(l.claim.Wants))
	for i := range rows {
		t := &rows[i]
		of := lane{typ: t.Type, phase: t.Phase(), region: l.claim.Region, tenant: t.Tenant}
		all[of] = append(all[of], t)
	}
	return all
}

func (b *lowMarks) raise(rows []*task.Task) {
	for _, t := range rows {
		r, m := indexRange{t.Region, t.Priority}, position{t.RunAt, t.ID}
		if t.Spilled { // it came from those of no region
			r.region = ""
		}
		if b.marks[r].less(m) {
			b.marks[r] = m
		}
	}
}
