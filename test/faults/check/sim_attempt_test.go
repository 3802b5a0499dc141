package check_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// attempted is one attempt at work.
type attempted struct {
	*life
	who       *simAgent
	began     time.Duration
	fence     int64
	number    int
	cut       time.Duration // from then on a child reports nothing, and a request nothing that reaches its agent
	made      bool
	completed bool
}

// report writes an event down, unless the attempt's agent has failed by then.
func (a *attempted) report(at time.Duration, what history.What, note string) {
	if at < a.cut {
		a.event(at, what, a.phase(), note)
	}
}

// reportAfter writes an event down that does not need the agent.
func (a *attempted) reportAfter(at time.Duration, what history.What) {
	a.event(at, what, a.phase(), "")
}

func (a *attempted) event(at time.Duration, what history.What, phase, note string) {
	a.g.Events = append(a.g.Events, history.Event{
		At: at, What: what, Who: a.who.name, Kind: a.life.kind.Name, Phase: phase, ID: int64(a.life.row.ID), Fence: a.fence,
		Attempt: a.number, Note: note,
	})
}

// rollsBack reports whether the attempt is a rollback.
func (a *attempted) rollsBack() bool { return a.life.row.State.Phase() == task.Rollback }

func (a *attempted) phase() string {
	if a.rollsBack() {
		return string(task.Rollback)
	}
	return ""
}

// terms are those of the attempt's phase.
func (a *attempted) terms() history.Kind {
	if a.rollsBack() {
		return *a.life.kind.Rollback
	}
	return a.life.kind
}

// check asks whether there is anything to do, before the attempt.
func (a *attempted) check() {
	if at := a.began - s(0.005); a.life.kind.Check > 0 && !a.rollsBack() && at > 0 {
		a.event(at, history.Start, string(task.Check), "")
		a.event(at+s(0.004), history.End, string(task.Check), "open")
	}
}

// work adds what the attempt does until it ends so, and returns when that is.
func (a *attempted) work(end task.Verdict) (over time.Duration) {
	g := a.g
	last, steps := a.began, rapid.IntRange(0, 3).Draw(g.t, "pings")
	if a.script.long {
		steps += 5
	}
	k := a.terms()
	a.sample(last, last+startLease(k))
	for range steps {
		last += g.between(s(0.2), s(1.4))
		a.report(last, history.Ping, "")
		a.report(last+s(0.01), history.Pinged, "200")
		if k.Heartbeat > 0 {
			a.sample(last, last+k.Heartbeat+k.Stop)
		}
		if last-a.began > min(s(8), k.Timeout-s(2)) {
			break
		}
	}
	if end == task.Stalled {
		return a.stall(last)
	}
	over = last + g.between(s(0.05), s(1))
	if end == task.Drained {
		a.report(over, a.stopped(), "")
		return over
	}
	if a.script.guarded && end == task.Succeeded && a.effect(over-s(0.04)) {
		return over
	}
	a.report(over, history.End, string(end))
	return over
}

// startLease is how long the lease of a claim lasts from the start on.
func startLease(k history.Kind) time.Duration {
	if k.Heartbeat == 0 {
		return k.Timeout + k.Stop
	}
	return k.Heartbeat + k.Stop
}

// stopped is how an attempt learns that it is to stop.
func (a *attempted) stopped() history.What {
	if a.kind.Child {
		return history.Signal
	}
	return history.Gone
}

// stall is the end of an attempt that says nothing any more.
func (a *attempted) stall(last time.Duration) time.Duration {
	if k := a.terms(); k.Heartbeat == 0 {
		last = a.began + k.Timeout
	} else {
		last += k.Heartbeat
	}
	last += a.g.between(0, s(0.6))
	a.report(last, a.stopped(), "")
	return last
}

// effect makes the task's effect, or rolls it back, and completes the row with it or not. It reports whether all is said: the row
// is completed.
func (a *attempted) effect(at time.Duration) bool {
	if at >= a.cut {
		return false
	}
	l := a.life
	guard := l.kind.Guard
	switch {
	case a.rollsBack() && (l.stands != nil || guard == history.Completed):
		l.g.effects = append(l.g.effects, &simEffect{
			at, history.EffectRow{ID: int64(l.row.ID), Fence: a.fence, Phase: "rollback", Who: a.who.name}, l.stands,
		})
		l.stands = nil
	case a.rollsBack():
		return false // there is nothing to roll back
	case l.stands == nil:
		l.stands = &simEffect{at, history.EffectRow{ID: int64(l.row.ID), Fence: a.fence, Who: a.who.name}, nil}
		l.g.effects = append(l.g.effects, l.stands)
	}
	a.made = true
	note := ""
	if a.g.one(4) {
		note = history.NoReply
	}
	a.report(at+s(0.01), history.Effect, note)
	if guard == history.Held || guard == "" && a.g.one(2) {
		return false
	}
	a.report(at+s(0.04), history.End, "succeeded")
	a.completed = true
	a.now = at
	a.settle(task.Outcome{Verdict: task.Succeeded}, l.row.Fence, true)
	return true
}

// sample looks how the row stands a little later, where the lease lasts until then.
func (a *attempted) sample(from, until time.Duration) {
	a.life.lease = max(a.life.lease, until)
	at := from + a.g.between(0, s(0.15))
	if at < a.cut {
		a.g.Samples = append(a.g.Samples, history.LeaseSample{
			At: at, Within: s(0.002), ID: int64(a.life.row.ID), Fence: a.fence, Left: until - at, Present: a.g.Presence,
		})
	}
}
