package poll

import (
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
		l.ahead = min(int(l.rate.value*hold), maxAhead)
	}
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
	var asks []ask
	ahead, first, lanes := 0, 0, 0 // of lanes of which the agent holds nothing: their asks, and how many they are
	for i := range s.lanes {
		l := s.lanes[(s.turn+i)%len(s.lanes)]
		ahead += l.ahead
		// A claim should be worth its round trip: while slots are fed, wait until half of what is held ahead is gone.
		if len(l.queue) > l.ahead/2 {
			continue
		}
		need := l.allow - l.running - len(l.queue) + l.ahead
		if need <= 0 {
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
	total := min(free-s.queued+min(ahead, s.within(maxBytes/2, maxAhead)), most, s.within(maxBytes, maxClaim))
	asks = divide(asks, total)
	for _, a := range slices.Backward(asks) { // the first source of a lane is the last one next time
		a.lane.turn = slices.Index(a.lane.sources, a.source) + 1
	}
	for i := range asks {
		a := &asks[i]
		a.want = a.lane.want(a.source, a.n)
	}
	return asks
}

// share divides what a lane needs among its sources that may have due rows, of runs and rollbacks alike.
func (l *lane) share(need int, room func(*lane, task.Phase) int) []ask {
	left := make(map[task.Phase]int, len(l.phases))
	for _, phase := range l.phases {
		left[phase] = need
		if n := room(l, phase); n >= 0 {
			left[phase] = min(need, n-l.waiting(phase)) // no claiming ahead for a target in doubt
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

// open returns a want of one row for each source that could be claimed from now, to ask the store what is due.
func (s *slots) open(room func(*lane, task.Phase) int) []store.Want {
	s.mu.Lock()
	defer s.mu.Unlock()
	var wants []store.Want
	for _, l := range s.lanes {
		if !s.may(l) {
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
	w := store.Want{Type: src.name, Phase: src.phase, N: n, Window: p.Window(src.phase), Policy: l.policy}
	if src.phase == task.Run {
		w.Deadline = p.Deadline
	}
	return w
}
