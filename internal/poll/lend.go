package poll

import (
	"math"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// stuckOver is how many of a lane's latest attempts show whether they mostly time out or stall.
const stuckOver = 8

// loadFor is the time over which the load of a lane is averaged: several polls, since a lane that is exhausted may have due rows
// that only the next poll finds.
const loadFor = 10 * time.Second

// ending is how an attempt ended, as far as its lane's share of the slots is concerned.
type ending int

const (
	untried ending = iota // it did not start
	ended
	hung // it timed out or stalled
)

func endingOf(v task.Verdict) ending {
	if v == task.TimedOut || v == task.Stalled {
		return hung
	}
	return ended
}

// count adds the time since the last call to what the lane has used. Nothing here reads a clock: callers know the time well enough.
func (l *lane) count(now time.Duration) {
	l.used += time.Duration(l.running) * (now - l.counted)
	l.counted = now
}

// over records the end of an attempt.
func (l *lane) over(end ending) {
	if end == untried {
		return
	}
	l.ended++
	l.latest = min(l.latest+1, stuckOver-1)
	switch {
	case end == hung:
		l.stuck += (1 - l.stuck) / float64(l.latest+1) // as if one had ended well before the first
	case l.stuck > 0.01:
		l.stuck -= l.stuck / float64(l.latest+1)
	default:
		l.stuck = 0
	}
}

// take takes a slot for a lane, and free frees it. s.mu is held.
func (s *slots) take(l *lane) {
	l.count(s.now)
	if l.running == 0 && l.current {
		s.without--
	}
	l.running++
	s.running++
}

func (s *slots) release(l *lane) {
	l.count(s.now)
	l.running--
	s.running--
	if l.running == 0 && l.current {
		s.without++
	}
}

// may reports whether an attempt of a lane may start now: a slot is free, the lane has not used up its share, and the last free
// slot is for a lane of which nothing runs, as long as there is one. s.mu is held.
func (s *slots) may(l *lane) bool {
	free := s.workers - s.running
	return free > 0 && l.running < l.allow && (free > 1 || l.running == 0 || s.without == 0)
}

// withheld reports whether slots are free while a lane has due rows and has used up its share.
func (s *slots) withheld() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running < s.workers && slices.ContainsFunc(s.lanes, func(l *lane) bool {
		return l.running < l.workers && !s.may(l) && l.due()
	})
}

// measure reads the loads, over the time since the last reading. s.mu is held.
func (s *slots) measure(now, elapsed time.Duration) {
	s.now = max(s.now, now)
	weight := 1 - math.Exp(-elapsed.Seconds()/loadFor.Seconds())
	for _, l := range s.lanes {
		l.count(s.now)
		l.load += weight * (l.used.Seconds()/elapsed.Seconds() - l.load)
		l.used = 0
	}
}

// allot computes how many attempts of each lane may run at once. s.mu is held.
func (s *slots) allot(room func(*lane, task.Phase) int) {
	if s.workers == 0 {
		return
	}
	for i, l := range s.lanes {
		s.demands[i] = demand{
			most: l.workers, held: l.running + l.requests(), due: l.due(), load: l.load, stuck: l.stuck, room: -1,
		}
		if s.demands[i].due {
			s.demands[i].room = l.room(room)
		}
	}
	share(s.workers, s.without > 0, s.demands, s.claims, s.allow)
	for i, l := range s.lanes {
		l.allow = s.allow[i]
	}
}

// due reports whether more rows of the lane are due and may start, as far as the last claims show.
func (l *lane) due() bool {
	return l.until == 0 && slices.ContainsFunc(l.sources, func(src *source) bool { return src.full })
}

// room returns how many more attempts of any phase may start; negative: no bound.
func (l *lane) room(room func(*lane, task.Phase) int) (n int) {
	for _, phase := range l.phases {
		more := room(l, phase)
		if more < 0 {
			return -1
		}
		n += more
	}
	return n
}
