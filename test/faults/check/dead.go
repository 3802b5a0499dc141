package check

import (
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// DeadComesBack says: the rows of an agent that was killed are reaped within its presence and 5 s, if another agent is
// there; and if no agent has anything else to do, they start again when the backoff is over.
//
// It must hold because a row is alive while its session is present and its own lease runs (rule 3), and every session
// looks for dead rows about once a second, from 3 s after its own start on.
//
// Tolerated says: History.Slack.
//
// Exempt says: a run in which no other agent is up, or all stand still: the time counts from when one is back; network,
// server and clocks while they are broken, and the time counts from when they are mended; a row that was accepted with
// a 202, which depends on no agent; one that an application's transaction may keep. Whether a row that is due again
// waits for its turn is not known while others are at work, nor whether its type is held back after an endpoint was
// broken: its start is only asked for while neither is so, and where the type's backoff is known.
const DeadComesBack Name = "DeadComesBack"

// sweepWithin is what the sweep of a dead session's rows may take beside its presence.
const sweepWithin = 5 * time.Second

// breakerOpen is how long a type may be held back after its target was out of reach.
const breakerOpen = time.Minute

func deadComesBack(x *index, f *found) {
	seen := make(map[*attempt]bool)
	for i := range x.h.Samples {
		sample := &x.h.Samples[i]
		s := x.byID[sample.ID]
		if s == nil {
			continue
		}
		a := s.attempt(sample.Fence)
		if a == nil || a.start == nil || seen[a] {
			continue
		}
		killed := x.agent(a.who).killed
		if killed > sample.At-x.h.Presence-sweepWithin || x.kept(s, a) {
			continue
		}
		if due := x.reapedBy(a.who, killed, sample.At); sample.At-sample.Within > due {
			seen[a] = true
			f.add(DeadComesBack, sample.At, s.id, "fence %d holds it still, %s after its agent %s was killed",
				a.fence, (sample.At - killed).Round(time.Millisecond), a.who)
		}
	}
	for _, s := range x.records {
		for i, a := range s.attempts {
			if x.agent(a.who).killed < forever && a.start != nil && !seen[a] {
				x.inspectReturn(s, i, f)
			}
		}
	}
}

// kept reports whether a row may be kept from a sweep: it depends on no agent, or an application's transaction may have it.
func (x *index) kept(s *record, a *attempt) bool {
	return a.detached() || s.guarded() && a.first(history.Effect, history.Refused, history.End) == nil
}

// reapedBy is when the rows of an agent that was killed must have been reaped, as of the moment at; forever where no agent
// was there to do that.
func (x *index) reapedBy(who string, killed, at time.Duration) time.Duration {
	there := forever
	for name, a := range x.agents {
		if name == who || a.up > at || a.killed <= at {
			continue
		}
		since := a.up
		for _, still := range a.frozen {
			if still.from <= at {
				since = max(since, still.to)
			}
		}
		there = min(there, since)
	}
	if there >= at {
		return forever
	}
	since := max(killed, there, x.weather.calm(at, ofNetwork, ofServer, ofClocks))
	return since + x.h.Presence + sweepWithin + x.slack
}

// inspectReturn looks when a row starts again whose attempt lost its agent.
func (x *index) inspectReturn(s *record, place int, f *found) {
	a := s.attempts[place]
	killed := x.agent(a.who).killed
	if a.kind.Backoff == 0 || a.start.At >= killed || x.kept(s, a) {
		return
	}
	if e := a.first(history.End, history.Gone, history.Signal); e != nil && e.At <= killed {
		return
	}
	if place+1 == len(s.attempts) || s.attempts[place+1].start == nil {
		return // it ended so at an unknown time; or it never did, which CommittedEnds reports
	}
	next := s.attempts[place+1]
	if s.stretch(next.fence) != s.stretch(a.fence) {
		return // a retry or a rollback was requested, at any time
	}
	due := x.reapedBy(a.who, killed, next.start.At)
	if due == forever || next.start.At <= due+a.kind.Backoff {
		return
	}
	due += a.kind.Backoff
	idle := span{due, next.start.At}
	if x.busy(idle) || x.weather.any(span{killed - breakerOpen, next.start.At}, ofEndpoints, ofDisks) || x.unsteady(a.who, idle) {
		return
	}
	f.add(DeadComesBack, next.start.At, s.id, "fence %d started %s after the agent of fence %d was killed, and no agent had anything else to do",
		next.fence, (next.start.At - killed).Round(time.Millisecond), a.fence)
}

// unsteady reports whether some other agent came, went, or stood still in the time, as far back as its presence reaches.
func (x *index) unsteady(who string, in span) bool {
	in.from -= x.h.Presence + sweepWithin
	for name, a := range x.agents {
		if name != who && (a.shaken(in) || a.killed >= in.from && a.killed <= in.to || a.up >= in.from && a.up <= in.to) {
			return true
		}
	}
	return false
}

// busy reports whether any attempt began or may have been at work in the time.
func (x *index) busy(in span) bool {
	for _, s := range x.records {
		for _, a := range s.attempts {
			if a.start == nil || a.start.At >= in.to {
				continue
			}
			over := min(a.over(), x.agent(a.who).killed)
			if over >= in.from {
				return true
			}
		}
	}
	return false
}

// over is the time from which on an attempt keeps no slot of an agent; forever: it is not known.
func (a *attempt) over() time.Duration {
	if e := a.first(history.End, history.Gone, history.Spared); e != nil {
		return e.At
	}
	return forever
}
