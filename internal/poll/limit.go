package poll

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// A type may have a limit over all agents. The store keeps it, so a claim of such a type may get fewer rows than are due. Its sources are
// not exhausted then, and the lane is held: it is asked for again once the store has settled attempts of it that ran here, since that
// makes room, and for the room that other agents make, after a pause. Nothing of such a type is claimed ahead of a free slot: it would
// take a place and not run.
const (
	// A claim that another one kept from the limit for a moment is made again after heldBusy, and one that found no room after heldFull;
	// as long as nothing is claimed, the pause doubles up to heldMost.
	heldBusy = time.Millisecond
	heldFull = 2 * time.Millisecond
	heldMost = 50 * time.Millisecond
	// A lane whose places are used again by exchanges asks for more of them less often.
	heldUsed = 250 * time.Millisecond
	// yieldEvery is how often a lane leaves one of its places to others if an agent wants one that has none.
	yieldEvery = 250 * time.Millisecond
	// What a rate holds is asked for when the next row may start, but no sooner than this: so one claim takes several where the rate is high.
	heldRate = 10 * time.Millisecond
)

// hold is what a lane knows of its type's limit.
type hold struct {
	limited bool          // the type has one
	until   time.Duration // local time before which it is not asked for; 0: it is not held
	byRate  bool          // what ends makes no room
	tries   int           // how often in a row it was held and got nothing
	freed   []string      // tenants of which attempts are settled since the last claim
	wanted  bool          // another agent has no place and wants one
	yielded time.Duration // local time at which the lane last left a place to others
	reused  bool          // an exchange got rows for it since it was asked for last
	told    bool          // a place may have been left since then, of which a claim that is under way may not know
}

// maxFreed bounds how many tenants are remembered that may have room: a store finds the others without that.
const maxFreed = 1024

// limits returns what a claim's reply says of limits: for each ask whether its type has one, and whether that kept rows from it.
func limits(asks []ask, rooms map[string]store.Room, tasks []task.Task) (limited, short []bool) {
	limited, short = make([]bool, len(asks)), make([]bool, len(asks))
	if len(rooms) == 0 {
		return limited, short
	}
	taken := make(map[string]int)
	for i := range tasks {
		taken[rooms[tasks[i].Type].Limit]++
	}
	for i, a := range asks {
		var room store.Room
		room, limited[i] = rooms[a.source.name]
		short[i] = limited[i] && (room.Busy || taken[room.Limit] >= room.Rows || room.Tenants)
	}
	return limited, short
}

// limitFound is what a claim found of a lane's limit.
type limitFound struct {
	limited bool // there is one
	short   bool // it kept rows from the claim
	busy    bool // another claim had it locked
	rated   bool // its rate left no more room
	got     int
	next    time.Duration // until a row may start
	tenants time.Duration // until a row of a tenant may start that its rate holds; 0: not known
}

// note records what a claim found of the lane's limit. s.mu is held.
func (l *lane) note(f limitFound, now time.Duration) {
	l.limited, l.byRate = f.limited, f.short && f.rated
	if l.byRate {
		l.until, l.tries = now+max(f.next, heldRate), 0
		return
	}
	if !f.short {
		l.until, l.tries, l.reused = 0, 0, false
		return
	}
	if f.got > 0 {
		l.tries = 0
	}
	first := heldFull
	if f.busy {
		first = heldBusy
	}
	most := heldMost
	if l.reused {
		most = heldUsed
	}
	l.until, l.reused = now+spread(min(first<<min(l.tries, 8), most)), false
	if l.told {
		l.until, l.told = max(now, 1), false // at once; 0 would say that nothing keeps rows from it
	}
	if f.tenants > 0 {
		l.until = min(l.until, now+max(f.tenants, heldRate))
	}
	l.tries++
}

// noteLimits records for each lane what a claim found of its limit. It reports whether every lane is held that was asked for, and how
// many of the rows are of types without a limit.
func (s *slots) noteLimits(asks []ask, counts []int, rooms map[string]store.Room, limited, short []bool, now time.Duration) (held bool, free int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lanes := make(map[*lane]*limitFound, len(asks))
	for i, a := range asks {
		f := lanes[a.lane]
		if f == nil {
			f = &limitFound{}
			lanes[a.lane] = f
		}
		f.limited = f.limited || limited[i]
		f.short = f.short || short[i] && counts[i] < a.n
		room := rooms[a.source.name]
		f.busy = f.busy || room.Busy
		f.rated, f.next = f.rated || room.Rated && !room.Tenants, max(f.next, room.Next)
		if in := room.TenantNext; in > 0 && (f.tenants == 0 || in < f.tenants) {
			f.tenants = in
		}
		f.got += counts[i]
		if !limited[i] {
			free += counts[i]
		}
	}
	held = len(lanes) > 0
	for l, f := range lanes {
		if f.limited || l.limited {
			l.note(*f, now)
		}
		held = held && l.until != 0
	}
	return held, free
}

// madeRoom ends the holds of these types: attempts of them that ran here, of these tenants, are settled.
func (s *slots) madeRoom(types map[string][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, tenants := range types {
		l := s.of[name]
		if l == nil || !l.limited {
			continue
		}
		l.freed = append(l.freed, tenants[:min(len(tenants), maxFreed-len(l.freed))]...)
		if l.until != 0 && !l.byRate {
			l.until, l.tries = 0, 0
			s.signal()
		}
	}
}

// placeLeft ends the holds of types of which nothing runs here, but for those that a rate holds: there may be a place for one of them.
func (s *slots) placeLeft() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		if l.byRate || l.running > 0 {
			continue
		}
		l.told = true
		if l.until != 0 {
			l.until, l.tries = 0, 0
			s.signal()
		}
	}
}

// heldFor returns how long it is until a lane that is held is asked for again; ok is false if none is.
func (s *slots) heldFor(now time.Duration) (in time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		if left := max(l.until-now, 0); l.until != 0 && s.may(l) && (!ok || left < in) {
			in, ok = left, true
		}
	}
	return in, ok
}

// needRoom reports whether a lane is held for want of room, which settlements make.
func (s *slots) needRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.lanes, func(l *lane) bool { return l.until != 0 && !l.byRate })
}
