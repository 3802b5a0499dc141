package poll

import "time"

// forgetAfter is how long a type is remembered after its last attempt has ended, or after it was declared last if nothing of it ran: what
// is settled or reported late still counts.
const forgetAfter = 5 * time.Second

// former are the types that were declared and are no more, with the local time since when nothing of them runs: 0 while something does. It is
// the loop's.
type former map[string]time.Duration

// add takes in that a generation has replaced another.
func (f *former) add(before, g *generation, now time.Duration) {
	for _, t := range before.Types {
		if *f == nil {
			*f = make(former)
		}
		(*f)[t.Name] = now
	}
	for _, t := range g.Types {
		delete(*f, t.Name)
	}
}

// forget drops what is kept of types that are declared no more, once nothing of them runs.
func (e *Engine) forget() {
	if len(e.former) == 0 {
		return
	}
	now := e.o.Clock.Now()
	for name, since := range e.former {
		switch {
		case e.slots.runs(name): // the turn after its last attempt's end goes on
			e.former[name] = 0
		case since == 0:
			e.former[name] = now
			e.wake.by(now + forgetAfter)
		case now-since < forgetAfter:
			e.wake.by(since + forgetAfter)
		case e.slots.drop(name):
			delete(e.former, name)
			e.o.Metrics.Forget(name)
			e.o.Activity.Forget(name)
			if e.o.Removed != nil {
				e.o.Removed(name)
			}
		}
	}
}

// runs reports whether attempts of a type run.
func (s *slots) runs(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[name]
	return l != nil && l.running > 0
}

// drop drops the lane of a type that is not declared, and reports whether nothing of it runs.
func (s *slots) drop(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[name]
	if l != nil && l.running > 0 {
		return false
	}
	delete(s.of, name)
	return true
}
