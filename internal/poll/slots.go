package poll

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// attempt is a claimed row, queued or running.
type attempt struct {
	lease    *lease.Lease
	declared *declared     // that it was claimed under
	lane     *lane         // once it is queued
	got      time.Duration // local time at which its claim was read

	claim *trace.SpanContext // of the span of its claim; nil: there is none
	span  *attemptSpan       // nil: none is recorded
}

func (a *attempt) phase() task.Phase { return a.lease.Task().Phase() }

// lane is one declared type inside the agent: what of it runs, and what was claimed ahead of a free slot. It outlives the
// generations that declare a type of its name; what is queued is of the present one.
type lane struct {
	*declared // at present
	sources   []*source
	turn      int // which source comes first, so that they take turns

	current bool // the present generation declares it
	running int  // slots in use
	queue   []*attempt
	ended   int  // attempts since the last reading of rate
	rate    ewma // attempts ended per second
	ahead   int  // rows to hold beyond free slots
	holds   bool // what is queued waits for others, to go with them in one request

	allow   int           // attempts that may run at once: its share of the slots
	used    time.Duration // of slots, since the last reading of load
	counted time.Duration // local time up to which used counts
	load    float64       // slots in use on average, over loadFor
	stuck   float64       // part of the latest attempts that timed out or stalled
	latest  int           // how many these are, less than stuckOver

	hold
}

// source is one row type that a lane claims, the type's name or an alias, in one phase: runs and rollbacks take turns.
type source struct {
	name      string
	phase     task.Phase
	exhausted bool // the last claim came back short: nothing more is due until something wakes the loop
	full      bool // the last claim got all it asked for: more may be due
}

// slots counts the slots in use and queues the rows that were claimed ahead, so that a slot that becomes free has its next
// row at hand.
type slots struct {
	clock lease.Clock

	mu      sync.Mutex
	workers int
	lanes   []*lane
	of      map[string]*lane // by the type's name: those lanes, and others of which something still runs
	running int
	queued  int
	without int           // lanes of which nothing runs
	now     time.Duration // local time as last read by a caller
	turn    int           // which lane comes first, so that types take turns
	read    time.Duration
	size    ewma // bytes of payload of a row
	halted  bool // leases may have been stopped of what is queued
	closed  bool

	demands []demand // of the lanes, kept from one call of allot to the next, as are
	claims  []float64
	allow   []int

	// Of requests with several attempts:
	beyond      atomic.Int64 // attempts that run, beyond one for each slot in use
	inMany      int          // bytes of them
	many        bool         // a lane has such requests
	alone       *alone
	picked      []int // what pick has found, kept from one call to the next
	pickedBytes int
	start       func()      // starts what may start; nil: no call
	alarm       *time.Timer // calls ring
	alarmAt     time.Duration
	ringing     sync.WaitGroup // calls of ring

	free chan struct{} // has an element when wants is worth asking again

	known atomic.Pointer[[]store.FullType] // what full has found last
}

const rateWeight = 0.3 // of the newest reading of a lane's rate

func newSlots(g *generation, clock lease.Clock) *slots {
	s := &slots{clock: clock, of: make(map[string]*lane), free: make(chan struct{}, 1), size: ewma{weight: 0.1}, alone: newAlone(clock)}
	s.read = clock.Now()
	s.now = s.read
	s.replace(g)
	return s
}

// replace has the slots go by another generation, and returns what was queued under the one before.
func (s *slots) replace(g *generation) (back []*attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		back = append(back, l.queue...)
		l.queue, l.current = nil, false
	}
	s.queued, s.without, s.many = 0, 0, false
	fewer := g.Workers < s.workers
	s.workers, s.lanes = g.Workers, nil
	for _, d := range g.types {
		l := s.of[d.typ.Name]
		if l == nil {
			l = &lane{rate: ewma{weight: rateWeight}, counted: s.now}
			s.of[d.typ.Name] = l
		} else if fewer || d.workers < l.workers { // it was the rate of more workers
			l.rate, l.ended, l.ahead = ewma{weight: rateWeight}, 0, 0
		}
		l.declared, l.sources, l.current, l.holds = d, d.sources(), true, false
		l.hold = hold{limited: bounded(limitOf(d.typ))}
		s.many = s.many || d.per > 1
		if l.running == 0 {
			s.without++
		}
		s.lanes = append(s.lanes, l)
	}
	n := len(s.lanes)
	s.demands, s.claims, s.allow = make([]demand, n), make([]float64, n), make([]int, n)
	s.allot(nil) // no lane is known to have due rows
	maps.DeleteFunc(s.of, func(_ string, l *lane) bool { return l.running == 0 && !slices.Contains(s.lanes, l) })
	return back
}

// push queues attempts.
func (s *slots) push(attempts []*attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range attempts {
		a.lane = s.of[a.declared.typ.Name]
		a.lane.queue, a.lane.holds = append(a.lane.queue, a), false
		s.size.add(float64(len(a.lease.Task().Payload)))
		s.now = max(s.now, a.got)
	}
	s.queued += len(attempts)
}

// next takes a free slot and what may start in it.
func (s *slots) next() job {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.running >= s.workers {
		return job{}
	}
	return s.pop()
}

// pop takes what may start next, types taking turns, and a slot for it. s.mu is held.
func (s *slots) pop() job {
	for i := range s.lanes {
		l := s.lanes[(s.turn+i)%len(s.lanes)]
		if len(l.queue) == 0 || !s.may(l) {
			continue
		}
		var j job
		if l.per > 1 {
			if j = s.gather(l); j.first == nil {
				continue
			}
		} else {
			j.first = l.queue[0]
			l.queue[0] = nil
			l.queue = l.queue[1:]
		}
		s.turn = (s.turn + i + 1) % len(s.lanes)
		s.take(l)
		s.queued -= j.rows()
		return j
	}
	return job{}
}

// done frees the slot of what is over and returns what comes next in it. What was not tried counts neither for the rate nor
// for the share of its lane.
func (s *slots) done(l *lane, end ending, now time.Duration) job {
	return s.doneMany(l, end, 1, 0, now)
}

// doneMany is done for a request of which so many attempts were tried, and that had so many bytes.
func (s *slots) doneMany(l *lane, end ending, rows, bytes int, now time.Duration) (next job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = max(s.now, now)
	s.release(l)
	s.inMany -= bytes
	l.over(end)
	if end != untried {
		l.ended += rows - 1
	}
	if !s.closed && s.running < s.workers { // there may be fewer slots than there were
		next = s.pop()
	}
	// The loop looks for rows to claim, and for queued ones that may start in the last free slot now: it is kept no longer. Nor do rows
	// wait for others of their type any more, if none of these are under way.
	if len(l.queue) <= l.ahead/2 || next.first != nil && s.without == 0 && s.queued > 0 && s.running < s.workers || l.holds && l.running == 0 {
		s.signal()
	}
	return next
}

// signal wakes the loop. It never blocks.
func (s *slots) signal() {
	select {
	case s.free <- struct{}{}:
	default:
	}
}

// shut lets nothing more start.
func (s *slots) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// close lets nothing more start and returns what was queued. What has been taken from the queue has started when it returns, or its
// slot's goroutine is at it.
func (s *slots) close() []*attempt {
	defer s.ringing.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.alarm != nil {
		s.alarm.Stop()
	}
	var all []*attempt
	for _, l := range s.lanes {
		all = append(all, l.queue...)
		l.queue = nil
	}
	s.queued = 0
	return all
}

// halt has the loop look through the queues for leases that were stopped. It never blocks for long.
func (s *slots) halt() {
	s.mu.Lock()
	s.halted = s.halted || s.queued > 0
	s.mu.Unlock()
	s.signal()
}

// takeBack removes from the queues the rows that must not start any more: those that have waited for longer than
// task.StartWait, all rows of a phase whose target is out of reach, and after halt those whose leases were stopped. next is the
// time until it has to be called again.
func (s *slots) takeBack(now time.Duration, shut func(*lane, task.Phase) bool) (back []*attempt, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = task.StartWait
	for _, l := range s.lanes {
		if len(l.queue) == 0 {
			continue
		}
		n := 0
		for n < len(l.queue) && now-l.queue[n].got >= task.StartWait {
			n++
		}
		if n > 0 { // the lane is slower than its rate: measure anew
			l.rate, l.ahead = ewma{weight: rateWeight}, 0
		}
		back = append(back, l.queue[:n]...)
		clear(l.queue[:n])
		stay := l.queue[n:]
		for _, phase := range l.phases {
			if shut(l, phase) {
				stay = slices.DeleteFunc(stay, func(a *attempt) bool {
					if a.phase() == phase {
						back = append(back, a)
					}
					return a.phase() == phase
				})
			}
		}
		if s.halted {
			stay = slices.DeleteFunc(stay, func(a *attempt) bool {
				stopped := a.lease.Context().Err() != nil
				if stopped {
					back = append(back, a)
				}
				return stopped
			})
		}
		s.queued -= len(l.queue) - len(stay)
		l.queue = stay
		if len(l.queue) > 0 {
			next = min(next, task.StartWait-(now-l.queue[0].got))
		}
	}
	s.halted = false
	return back, next
}

// idle reports whether slots are free and no queued row can use them: rows that are queued then belong to types whose own slots
// are all taken. If only the slot is free that is kept for a type of which nothing runs, and another one could use it, the
// session is as busy as if it were taken.
func (s *slots) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.workers - s.running
	if free <= 0 {
		return false
	}
	return !slices.ContainsFunc(s.lanes, func(l *lane) bool {
		if s.may(l) {
			return len(l.queue) > 0 && !l.holds
		}
		return free == 1 && l.running < l.workers && (len(l.queue) > 0 || l.due())
	})
}

// held returns how many rows run or are queued.
func (s *slots) held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running + s.queued + int(s.beyond.Load())
}

// active returns how many slots are in use.
func (s *slots) active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// ewma is an exponentially weighted moving average.
type ewma struct {
	weight float64 // of the newest value, in (0, 1]
	value  float64
	warm   bool
}

func (m *ewma) add(v float64) {
	if !m.warm {
		m.value, m.warm = v, true
		return
	}
	m.value += m.weight * (v - m.value)
}
