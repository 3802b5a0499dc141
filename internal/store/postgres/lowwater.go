package postgres

import (
	"iter"
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
//
// The rows of one of many tenants are taken one at a time, and a mark makes it two lookups where one would do. The index knows entries as dead
// once a look has come by that no snapshot needs any more, and then they cost next to nothing. So tenants have their marks as late as other
// lanes, and from the first row on only while claims read more than lowDead entries for each tenant that a look before them has come by: about as
// many cost what the other lookup does.
const (
	lowAfter = 100
	lowDead  = 10
	lowLeast = time.Second
	lowRose  = 20 * time.Millisecond // at least, after rows that waited for their locks were promoted here
	lowMost  = 5 * time.Second
	// lowLanes is how many lanes are remembered: more only where tenants come and go, and then all are looked at from zero.
	lowLanes = 4 * ringMost
	lowShare = 20 // a look from zero may take a 20th of the time
)

type lowWater struct {
	now   func() time.Time
	mu    sync.Mutex
	lanes map[lane]*lowMarks
	risen time.Time // when rose was called last
	deep  time.Time // until then claims of tenants read many dead entries
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
	since  int           // rows claimed in that look and after it
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
func (f *lowWater) after(of lane) int {
	if of.tenant != "" && f.now().Before(f.deep) {
		return 1
	}
	return lowAfter
}

// measure notes that a claim of tenants has read many dead entries, by so many looks of which some were from zero. Such a look reads the entries
// that rows have left since the one before it: here so many rows were taken since then, and maybe by some other agents as many each. The index
// forgets these, unless a snapshot is held. Another claim may come by tenants of which there are none, so this is true for a while.
func (f *lowWater) measure(l *look, rows, looks, since int) {
	const agents = 4
	if l.read-rows > lowDead*looks+agents*since {
		f.deep = f.now().Add(lowMost)
	}
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
	read    int         // of a claim of tenants: entries of the index; 0: not known
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
		if b == nil || b.taken < f.after(of) || l.started.Sub(b.looked) >= b.every {
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
	took, all := f.now().Sub(l.started), byLane(l, rows)
	looks, zeros, since := 0, 0, 0
	for i, w := range l.claim.Wants {
		if w.N == 0 { // a limit left no room for it: nothing was looked at
			continue
		}
		lane := l.lane(i)
		n := all.count(lane)
		b := f.lanes[lane]
		if looks++; l.zero[i] {
			zeros++
		}
		if b != nil && l.zero[i] {
			since += b.since
		}
		if n < w.N && !cut {
			delete(f.lanes, lane)
			if !l.zero[i] {
				w.N -= n
				again, l.again = append(again, w), append(l.again, i)
			}
			continue
		}
		if b == nil && !l.zero[i] {
			continue // another claim has found the lane short: the next one looks from zero
		}
		if b == nil {
			b = &lowMarks{}
			f.lanes[lane] = b
		}
		if l.zero[i] {
			b.looked, b.took, b.every, b.marks = l.started, took, min(max(lowLeast, lowShare*took), lowMost), nil
			b.since = 0
			if !f.risen.Before(l.started) { // the look may have missed them
				b.every = max(lowRose, lowShare*took)
			}
		}
		b.taken, b.since = b.taken+n, b.since+n
		if b.taken >= f.after(lane) {
			b.raise(all.of(lane))
		}
	}
	if zeros > 0 {
		f.measure(l, len(rows), looks, since)
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

// laneRows are claimed rows by their lanes: in each the first one, and which one comes next, counted from 1 on.
type laneRows struct {
	rows  []task.Task
	first map[lane]int32
	next  []int32
}

func byLane(l *look, rows []task.Task) laneRows {
	all := laneRows{rows, make(map[lane]int32, len(l.claim.Wants)), make([]int32, len(rows))}
	for i := range rows {
		t := &rows[i]
		of := lane{typ: t.Type, phase: t.Phase(), region: l.claim.Region, tenant: t.Tenant}
		all.next[i], all.first[of] = all.first[of], int32(i+1)
	}
	return all
}

// of returns the rows of a lane.
func (l laneRows) of(lane lane) iter.Seq[*task.Task] {
	return func(yield func(*task.Task) bool) {
		for i := l.first[lane]; i > 0; i = l.next[i-1] {
			if !yield(&l.rows[i-1]) {
				return
			}
		}
	}
}

// count returns how many rows of the lane there are.
func (l laneRows) count(lane lane) (n int) {
	for range l.of(lane) {
		n++
	}
	return n
}

func (b *lowMarks) raise(rows iter.Seq[*task.Task]) {
	if b.marks == nil {
		b.marks = map[indexRange]position{}
	}
	for t := range rows {
		r, m := indexRange{t.Region, t.Priority}, position{t.RunAt, t.ID}
		if t.Spilled { // it came from those of no region
			r.region = ""
		}
		if b.marks[r].less(m) {
			b.marks[r] = m
		}
	}
}
