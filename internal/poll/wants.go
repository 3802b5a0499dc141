package poll

import (
	"math"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ask is a share of a claim before it becomes a Want.
type ask struct {
	lane   *lane
	source *source
	n      int
	rows   int // where n counts slots
	want   store.Want
}

const (
	// aheadFor is how much work is held beyond the free slots at least, as time at the present rate: long enough that slots
	// are fed while a claim and a settlement are under way, and far below task.StartWait.
	aheadFor = 50 * time.Millisecond
	// aheadClaims is how many claims that work lasts for, where a claim takes longer. The next one is sent when half of it is
	// left: with two it would often come too late, and the slots, and then the claims, would wait for one another.
	aheadClaims = 3
	// aheadMax is the most of that time, where the store is slow.
	aheadMax = 250 * time.Millisecond
)

// plan reads the rates and sets how far ahead each lane claims: what its slots go through while so many claims are under way.
// s.mu is held.
func (s *slots) plan(latency time.Duration) {
	now := s.clock.Now()
	elapsed := (now - s.read).Seconds()
	if elapsed < 0.005 {
		return
	}
	s.measure(now, now-s.read)
	s.read = now
	hold := min(max(aheadClaims*latency, aheadFor), aheadMax).Seconds()
	for _, l := range s.lanes {
		l.rate.add(float64(l.ended) / elapsed)
		l.ended = 0
		if l.ahead = 0; !l.limited {
			l.ahead = l.holdAhead(l.rate.value * hold)
		}
	}
}

// holdAhead returns how many rows to hold beyond the free slots, if its slots go through so many while claims are under way. Where
// a slot runs many at once, that is a multiple of these, so that requests are full; and nothing where these would wait for
// too long.
func (l *lane) holdAhead(rows float64) int {
	if l.per > 1 {
		if l.rate.value*aheadMax.Seconds() < float64(l.per) {
			return 0
		}
		rows = math.Ceil(rows/float64(l.per)) * float64(l.per)
	}
	return min(int(rows), maxAhead)
}

// lacks returns how many rows to claim for a lane now: none while its slots are fed. A claim should be worth its round trip, so it
// waits until half of what is held ahead is gone.
func (l *lane) lacks() int {
	slots := (l.allow - l.running) * l.per
	if l.per == 1 && len(l.queue) > l.ahead/2 {
		return 0
	}
	if l.per > 1 && slots <= len(l.queue) && len(l.queue) > max(min(l.ahead/2, l.ahead-l.per), 0) {
		return 0
	}
	return slots - len(l.queue) + l.ahead
}

// within returns how many rows of the recent average size have so many bytes; at least one, and no more than most.
func (s *slots) within(bytes float64, most int) int {
	return min(max(int(bytes/max(s.size.value, 1)), 1), most)
}

// wants returns what to claim now: nothing while enough is queued, else what each type that may have due rows lacks of its share.
// room returns how many of a lane's phase may start (negative: no bound); most bounds the whole.
func (s *slots) wants(latency time.Duration, most int, room func(*lane, task.Phase) int) []ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan(latency)
	if s.workers == 0 {
		return nil
	}
	s.allot(room)
	now := s.clock.Now()
	var asks []ask
	ahead, first, lanes := 0, 0, 0 // of lanes of which the agent holds nothing: their asks, and how many they are
	for i := range s.lanes {
		l := s.lanes[(s.turn+i)%len(s.lanes)]
		ahead += (l.ahead + l.per - 1) / l.per
		need := l.lacks()
		if need <= 0 || l.until > now {
			continue
		}
		some := l.share(need, room)
		if l.running > 0 || len(l.queue) > 0 || len(some) == 0 {
			asks = append(asks, some...)
			continue
		}
		asks = slices.Insert(asks, first, some...)
		first += len(some)
		lanes++
	}
	free := s.workers - s.running
	if s.without > lanes && free > lanes { // the last free slot stays free, unless such a lane takes it
		free--
	}
	total, rows := free-s.filled()+min(ahead, s.within(maxBytes/2, maxAhead)), min(most, s.within(maxBytes, maxClaim))
	if s.many {
		asks = divideMany(asks, total, min(rows, s.within(maxBytes, maxUnsettled)-s.queued))
	} else {
		asks = divide(asks, min(total, rows))
	}
	for _, a := range slices.Backward(asks) { // the first source of a lane is the last one next time
		a.lane.turn = slices.Index(a.lane.sources, a.source) + 1
	}
	for i := range asks {
		a := &asks[i]
		a.want = a.lane.want(a.source, a.n)
		a.want.Freed = a.lane.freed
		a.want.Starved = a.lane.limited && a.lane.running == 0 && len(a.lane.queue) == 0
	}
	for _, a := range asks {
		a.lane.freed, a.lane.told = nil, false
	}
	return asks
}

// filled returns how many slots what is queued would take.
func (s *slots) filled() int {
	if !s.many {
		return s.queued
	}
	n := 0
	for _, l := range s.lanes {
		n += l.requests()
	}
	return n
}

// divideMany is divide where a slot may take many rows: slots are divided, and then rows.
func divideMany(asks []ask, slots, rows int) []ask {
	for i := range asks {
		a := &asks[i]
		a.rows, a.n = a.n, (a.n+a.lane.per-1)/a.lane.per
	}
	asks = divide(asks, slots)
	for i := range asks {
		a := &asks[i]
		a.n = min(a.rows, a.n*a.lane.per)
	}
	return divide(asks, rows)
}

// share divides what a lane needs among its sources that may have due rows, of runs and rollbacks alike.
func (l *lane) share(need int, room func(*lane, task.Phase) int) []ask {
	left := make(map[task.Phase]int, len(l.phases))
	for _, phase := range l.phases {
		left[phase] = need
		if l.per > 1 {
			left[phase] = min(need, l.fits(phase))
		}
		if n := room(l, phase); n >= 0 {
			left[phase] = min(left[phase], n-l.waiting(phase)) // no claiming ahead for a target in doubt
		}
	}
	var hasMore []*source
	for j := range l.sources {
		if src := l.sources[(l.turn+j)%len(l.sources)]; !src.exhausted && left[src.phase] > 0 {
			hasMore = append(hasMore, src)
		}
	}
	var asks []ask
	for i, src := range hasMore {
		n := min((need+len(hasMore)-i-1)/(len(hasMore)-i), left[src.phase])
		if n <= 0 {
			continue
		}
		asks = append(asks, ask{lane: l, source: src, n: n})
		need -= n
		left[src.phase] -= n
	}
	return asks
}

// fits returns how many more rows of a phase the lane may hold, where requests of its phases differ in size.
func (l *lane) fits(phase task.Phase) int {
	n := l.per
	b := l.batch(phase)
	if b != nil && b.Max == n {
		return (l.allow-l.running)*n + l.ahead
	}
	n = 1
	if b != nil {
		n = b.Max
	}
	return (l.allow-l.running)*n - l.waiting(phase)
}

// waiting returns how many rows of a phase are queued.
func (l *lane) waiting(phase task.Phase) (n int) {
	for _, a := range l.queue {
		if a.phase() == phase {
			n++
		}
	}
	return n
}

// divide divides total among the asks: equally, and what one does not need goes to the others. A remainder of less than one
// for each goes to the first ones.
func divide(asks []ask, total int) []ask {
	given := make([]int, len(asks))
	for total > 0 {
		unmet := 0
		for i := range asks {
			if given[i] < asks[i].n {
				unmet++
			}
		}
		if unmet == 0 {
			break
		}
		share := max(total/unmet, 1)
		for i := range asks {
			n := min(asks[i].n-given[i], share, total)
			given[i] += n
			total -= n
		}
	}
	for i := range asks {
		asks[i].n = given[i]
	}
	return slices.DeleteFunc(asks, func(a ask) bool { return a.n == 0 })
}

// setExhausted records whether a claim came back short for a source: the source is exhausted until something wakes the loop.
func (s *slots) setExhausted(src *source, short bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	src.exhausted, src.full = short, !short
}

// forgetExhausted forgets that sources were exhausted: something may be due.
func (s *slots) forgetExhausted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		for _, src := range l.sources {
			src.exhausted = false
		}
	}
}

// open returns a want of one row for each source that could be claimed from now, to ask the store what is due. What a limit holds is
// no starvation, and has a look of its own.
func (s *slots) open(room func(*lane, task.Phase) int) []store.Want {
	s.mu.Lock()
	defer s.mu.Unlock()
	var wants []store.Want
	for _, l := range s.lanes {
		if !s.may(l) || l.until != 0 {
			continue
		}
		for _, phase := range l.phases {
			if room(l, phase) == 0 {
				continue
			}
			for _, src := range l.sources {
				if src.phase == phase {
					wants = append(wants, l.want(src, 1))
				}
			}
		}
	}
	return wants
}

// want returns the want for n rows of a source. A rollback gets no deadline.
func (l *lane) want(src *source, n int) store.Want {
	p := &l.typ.Policy
	w := store.Want{Type: src.name, Phase: src.phase, N: n, Window: p.Window(src.phase), Policy: l.policy, Weights: l.typ.Weights}
	if src.phase == task.Run {
		w.Deadline = p.Deadline
	}
	return w
}

// notAsked takes back asks for which no claim is made. The tenants of those that may have room are told to the next one.
func (s *slots) notAsked(asks []ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range asks {
		if len(a.lane.freed) == 0 {
			a.lane.freed = a.want.Freed
		}
	}
}
