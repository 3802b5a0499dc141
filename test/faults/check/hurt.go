package check

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// slain reports whether the nemesis killed the attempt's process before that time; nil has none.
func (x *index) slain(a *attempt, before time.Duration) bool {
	return a != nil && x.didTo(a, history.Slain, before)
}

// stopped reports whether the attempt's process stood still, by its own doing or the nemesis', since before that time.
func (x *index) stopped(a *attempt, before time.Duration) bool {
	if e := a.first(history.Stopped); e != nil && e.At <= before {
		return true
	}
	return x.didTo(a, history.Stopped, before)
}

// died reports whether the attempt's process was last seen before that time.
func (x *index) died(a *attempt, before time.Duration) bool {
	return x.didTo(a, history.Dead, before)
}

// didTo reports whether that happened to the attempt's process before a time, and after the attempt began.
func (x *index) didTo(a *attempt, what history.What, before time.Duration) bool {
	return a.pid != 0 && slices.ContainsFunc(x.hurt[a.pid], func(e *history.Event) bool {
		return e.What == what && e.At <= before && e.At >= a.events[0].At-startWait
	})
}

// anySlain reports whether the nemesis killed any process.
func (x *index) anySlain() bool {
	for _, all := range x.hurt {
		if slices.ContainsFunc(all, func(e *history.Event) bool { return e.What == history.Slain }) {
			return true
		}
	}
	return false
}
