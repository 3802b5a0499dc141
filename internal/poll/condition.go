package poll

import "github.com/leasehold/leasehold/internal/store"

// condition returns what people want to know of the session: it goes into the store with each heartbeat.
func (e *Engine) condition() (c store.Condition) {
	if e.o.Condition != nil {
		c = e.o.Condition()
	}
	declared := e.current.Load().byName
	for i := range c.Breakers {
		if d := declared[c.Breakers[i].Types[0]]; d != nil {
			c.Breakers[i].Types = d.typ.Names()
		}
	}
	c.Full = e.slots.full()
	stuck, starved := e.idleTooLong()
	c.Stuck, c.Starved = stuck.Milliseconds(), starved.Milliseconds()
	if ago, ever := e.keeper.JumpedAgo(); ever && ago < store.JumpReported {
		c.Jumped = max(ago.Milliseconds(), 1)
	}
	return c
}

// full lists the types all of whose own slots are in use, where the agent has more of them than the type. A heartbeat does not wait for
// the loop: while the slots are locked, it has what was known last.
func (s *slots) full() []store.FullType {
	if !s.mu.TryLock() {
		if known := s.known.Load(); known != nil {
			return *known
		}
		return nil
	}
	defer s.mu.Unlock()
	var full []store.FullType
	for _, l := range s.lanes {
		if l.workers < s.workers && l.running >= l.workers && len(full) < store.MostConditions {
			full = append(full, store.FullType{Types: l.typ.Names(), Workers: l.workers})
		}
	}
	s.known.Store(&full)
	return full
}
