package guardian

import (
	"time"

	"github.com/leasehold/leasehold/internal/exec/command/processes"
)

// search is when to look for processes by their mark: those that left their group, and those whose group the agent had
// not sent yet. One look at a time goes on beside the loop, because the kernel may make it wait for a process that is
// stuck, and the groups are not to wait with it.
type search struct {
	wanted   bool          // there is something to be looked for
	wantedAt time.Duration // since when: a look that began before may have missed something
	at       time.Duration // when to look next
	busy     bool          // a look goes on
	clear    time.Duration // when the first look began that found nothing, of those since the last one that did
	dirty    bool          // there was none
}

// finding is what a look has found.
type finding struct {
	began time.Duration
	some  bool
}

const (
	lookSoon  = 5 * time.Millisecond
	lookLater = 100 * time.Millisecond
)

// again has the processes looked for, from now on until none is found.
func (s *search) again(now time.Duration) {
	s.wanted, s.dirty, s.wantedAt, s.at = processes.Marks, processes.Marks, now, now
}

// next is when to look next, or for the answer of a look that goes on.
func (s *search) next(now time.Duration) time.Duration {
	switch {
	case s.busy:
		return now + lookSoon
	case s.wanted:
		return s.at
	}
	return never
}

// quiet reports whether nothing was found for long enough.
func (s *search) quiet(now time.Duration) bool {
	return !s.dirty && (!s.wanted || now-s.clear >= settleFor)
}

// take takes in what a look has found.
func (s *search) take(f finding, now time.Duration) {
	s.busy = false
	s.at = now + lookLater
	switch {
	case f.some:
		s.dirty, s.at = true, now+lookSoon
	case f.began < s.wantedAt:
		s.at = now
	case s.dirty:
		s.dirty, s.clear = false, f.began
	}
}

// look begins a look when it is time for one, and takes in what the last one found.
func (l *loop) look(now time.Duration) {
	s := &l.search
	select {
	case f := <-l.finds:
		s.take(f, now)
	default:
	}
	if !s.dirty && (!l.purging || !l.ended && s.quiet(now)) {
		s.wanted = false
	}
	if s.busy || !s.wanted || now < s.at {
		return
	}
	s.busy = true
	go func() { // ends with the look; the process does not wait for it
		found, err := processes.Kill(l.hello.Run, l.ask)
		l.finds <- finding{began: now, some: err != nil || len(found) > 0}
	}()
}

// question is whether processes with that number are to be killed.
type question struct {
	number uint64
	answer chan bool // has room for it
}

// ask asks the loop, which first reads what the agent has written meanwhile: its presence may have been prolonged since the
// look began, and attempts started that must not be killed.
func (l *loop) ask(number uint64) bool {
	q := question{number: number, answer: make(chan bool, 1)}
	l.asks <- q
	return <-q.answer
}

// await waits for the look that goes on to ask something or to end, for a moment. The answer comes once what the agent
// has written so far was read.
func (l *loop) await(moment time.Duration) {
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case l.question = <-l.asks:
	case <-timer.C:
	}
}

// reply answers the question, if there is one.
func (l *loop) reply() {
	if l.question.answer != nil {
		l.question.answer <- l.watch.wants(l.question.number, l.purging)
		l.question = question{}
	}
}
