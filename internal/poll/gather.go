package poll

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// job is what a slot runs: an attempt, or several in one request.
type job struct {
	first *attempt // nil: there is none
	more  []*attempt
	bytes int // of the request, about; 0 for a single attempt
}

// rows returns how many attempts the job has.
func (j *job) rows() int { return 1 + len(j.more) }

// manyBytes bounds what all requests with several tasks have in flight together, in bytes. If it is used up, each further request
// has one task.
const manyBytes = maxBytes

// gather takes the next request of a lane from its queue; its first attempt is nil if all that is queued is to wait, for others or
// until earlier attempts of the rows have ended. s.mu is held.
func (s *slots) gather(l *lane) (j job) {
	l.holds = false
	var held task.Phase // of which the oldest rows wait for others, and with them the younger ones
	for i, a := range l.queue {
		phase := a.phase()
		batch := l.batch(phase)
		if batch == nil {
			j.first = a
			l.queue = slices.Delete(l.queue, i, i+1)
			return j
		}
		if phase == held || a.lease.Waits() {
			continue
		}
		full := s.pick(l, i, batch)
		if !full && l.running > 0 && s.wait(a, batch) {
			held, l.holds = phase, true
			continue
		}
		return s.takePicked(l)
	}
	return j
}

// pick sets s.picked to the places of the attempts that can go into one request with the one at place first, and s.pickedBytes to
// their size. It reports whether there is no room for more in it.
func (s *slots) pick(l *lane, first int, b *task.Batch) (full bool) {
	leader := l.queue[first]
	phase, most := leader.phase(), s.shares(leader, b)
	limit := min(task.MaxBatchBytes, manyBytes-s.inMany)
	s.picked, s.pickedBytes = append(s.picked[:0], first), elementSize(leader.lease.Task())
	for i := first + 1; i < len(l.queue) && len(s.picked) < most; i++ {
		a := l.queue[i]
		if a.phase() != phase || s.shares(a, b) != most || a.lease.Waits() {
			continue
		}
		n := elementSize(a.lease.Task())
		if s.pickedBytes+n > limit {
			return true
		}
		s.picked = append(s.picked, i)
		s.pickedBytes += n
	}
	return len(s.picked) == most
}

// shares returns how many tasks a request with this one may have.
func (s *slots) shares(a *attempt, b *task.Batch) int {
	row := a.lease.Task()
	if s.alone.has(row.ID) {
		return 1
	}
	return row.SharesWith(b.Max)
}

// wait reports whether an attempt waits for others, and has the slots looked at again when that is over.
func (s *slots) wait(a *attempt, b *task.Batch) bool {
	left := a.got + b.Wait - s.clock.Now()
	if left > 0 {
		s.later(left)
	}
	return left > 0
}

// takePicked takes the attempts at the picked places from the queue.
func (s *slots) takePicked(l *lane) job {
	n, first := len(s.picked), s.picked[0]
	j := job{first: l.queue[first], bytes: s.pickedBytes}
	if first == 0 && s.picked[n-1] == n-1 { // mostly
		j.more = l.queue[1:n:n]
		if l.queue = l.queue[n:]; len(l.queue) == 0 {
			l.queue = nil // what was in it is not to be kept
		}
	} else {
		j.more = make([]*attempt, 0, n-1)
		for _, i := range s.picked[1:] {
			j.more = append(j.more, l.queue[i])
		}
		rest := make([]*attempt, 0, len(l.queue)-n)
		for i, a := range l.queue {
			if len(s.picked) > 0 && s.picked[0] == i {
				s.picked = s.picked[1:]
				continue
			}
			rest = append(rest, a)
		}
		l.queue, s.picked = rest, nil
	}
	s.inMany += j.bytes
	s.beyond.Add(int64(n - 1))
	return j
}

// later has start called in that time, or earlier.
func (s *slots) later(in time.Duration) {
	at := s.clock.Now() + in
	if s.start == nil || s.closed || s.alarm != nil && s.alarmAt != 0 && s.alarmAt <= at {
		return
	}
	s.alarmAt = at
	if s.alarm == nil {
		s.alarm = time.AfterFunc(in, s.ring)
		return
	}
	s.alarm.Reset(in)
}

// ring starts what has waited long enough for others.
func (s *slots) ring() {
	s.mu.Lock()
	s.alarmAt = 0
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.ringing.Add(1)
	s.mu.Unlock()
	defer s.ringing.Done()
	s.start()
}

// requests returns how many slots what is queued of the lane would take.
func (l *lane) requests() int {
	return (len(l.queue) + l.per - 1) / l.per
}

// elementSize returns about how many bytes a row has in a request with several.
func elementSize(t *task.Task) int {
	n := 1024 + documents(t) + len(t.Labels) + len(t.Key) + len(t.Region)
	if t.Previous != nil {
		n += len(t.Previous.Error)
	}
	return n
}
