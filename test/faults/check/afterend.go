package check

import (
	"math"
	"time"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// RollbackAfterEnd says: a rollback starts only after every attempt to run the task is over, and what an operator had
// retried only after every attempt of the rounds before. One by HTTP that did not end by its own word is over when its
// lease is; that processes are dead, and connections closed, is OneChildAtATime's and OneRequestAtATime's business, for
// which a rollback is an attempt like any other. And what has started was claimed for what it did: to run, or to roll back.
//
// It must hold because a row that may be at work somewhere is due again when its lease is over, whatever became of it
// meanwhile.
//
// Tolerated says: the time between two looks at a lease, in which it may only have become longer, but for what the first
// ping takes off it: the window of a claim also covers the start.
//
// Exempt says: an attempt that completed its row itself; the store's clock, when it steps, and what was written by it
// before the attempt started; where agents, the network or the server were broken a lease may have ended with the presence
// of its session.
const RollbackAfterEnd Name = "RollbackAfterEnd"

func rollbackAfterEnd(x *index, f *found) {
	leases := x.leases()
	for _, s := range x.records {
		x.inspectPhases(s, f)
		for _, st := range s.stretches[1:] {
			for _, a := range st.attempts {
				if a.start != nil {
					x.inspectBefore(s, st, a, leases, f)
				}
			}
		}
	}
}

// leases are how those attempts' leases stood when they were last looked at.
func (x *index) leases() map[*attempt]*history.LeaseSample {
	last := make(map[*attempt]*history.LeaseSample)
	for i := range x.h.Samples {
		sample := &x.h.Samples[i]
		if s := x.byID[sample.ID]; s != nil && len(s.stretches) > 1 {
			if a := s.attempt(sample.Fence); a != nil {
				last[a] = sample
			}
		}
	}
	return last
}

// inspectPhases looks what attempts were claimed for.
func (x *index) inspectPhases(s *record, f *found) {
	claimed := make(map[int64]task.Phase)
	for _, m := range s.moves {
		if state := task.State(m.State); state.Running() {
			claimed[m.Fence] = state.Phase()
		}
	}
	if len(claimed) == 0 {
		return
	}
	for _, a := range s.attempts {
		if a.start == nil {
			continue
		}
		if is := claimed[a.fence]; is != a.phase {
			f.add(RollbackAfterEnd, a.start.At, s.id, "fence %d started a %s, and was claimed for %q", a.fence, a.phase, is)
		}
	}
}

// inspectBefore looks at the attempts that were made before a stretch began, from one of its own.
func (x *index) inspectBefore(s *record, st *stretch, next *attempt, leases map[*attempt]*history.LeaseSample, f *found) {
	began := next.start.At
	for _, a := range s.attempts {
		if a.child || a.start == nil || a.fence > st.after {
			continue
		}
		sample := leases[a]
		if sample == nil || a.endedBy(began) || s.endedWith(a.fence) && a.first(history.Effect) != nil {
			continue
		}
		left := sample.Left
		if x.mayBeReaped(a, span{a.start.At, began}) && !a.detached() {
			left = min(left, sample.Present)
		}
		until := min(sample.At-sample.Within+left, x.shortened(a, sample, began)) - rounding
		written := a.start.At - x.h.Presence - startWait - x.slack // what there is of the claim and the presence, at the earliest
		if began < until && !x.weather.any(span{written, began}, ofClocks) {
			f.add(RollbackAfterEnd, began, s.id, "the %s with fence %d started %s before the lease of fence %d was over",
				next.phase, next.fence, (until - began).Round(time.Millisecond), a.fence)
		}
	}
}

// shortened returns the earliest end that a ping may have given the lease of an attempt after it was looked at; without
// one, a moment that never comes. Pings from long before are in what was seen, and a later one makes the lease longer than those did.
func (x *index) shortened(a *attempt, sample *history.LeaseSample, before time.Duration) time.Duration {
	end, in := time.Duration(math.MaxInt64), span{a.start.At, before}
	known := sample.At - sample.Within - x.slack
	if x.weather.any(in, ofNetwork, ofServer) || x.agent(a.who).shaken(in) {
		known = 0 // a write may have taken long
	}
	for _, e := range a.events {
		if a.kind.Heartbeat > 0 && e.What == history.Ping && e.At <= before && (end == math.MaxInt64 || e.At <= known) {
			end = e.At + windowOf(&a.kind, e) + a.kind.Stop
		}
	}
	return end
}

// endedBy reports whether an attempt had ended by its own word by then.
func (a *attempt) endedBy(at time.Duration) bool {
	for _, e := range a.events {
		if (e.What == history.End || e.What == history.Spared) && e.At <= at && e.Note != history.Accepted && e.Note != history.CutOff {
			return true
		}
	}
	return false
}

// mayBeReaped reports whether the session of an attempt may have been taken for dead.
func (x *index) mayBeReaped(a *attempt, in span) bool {
	agent := x.agent(a.who)
	return agent.killed <= in.to+obituary || agent.shaken(in) || x.weather.any(in, ofNetwork, ofServer)
}
