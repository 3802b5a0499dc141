package check

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// HungIsCaught says: an attempt that reports nothing for a heartbeat, or is not over with its timeout, is stopped within a
// second: a child is asked to stop, a request's connection is closed, or its ping gets a 410.
//
// It must hold because only the task itself can prove progress, and no timer of the agent vouches for it; before the agent
// declares a stall it asks the store whether pings came elsewhere, for at most half a second.
//
// Tolerated says: History.Slack.
//
// Exempt says: an agent that was killed or stood still meanwhile, or a processor that did; a 202, whose handler has no open
// request; an endpoint, or a way to it, that was broken; an attempt that has completed its row; an attempt that reported
// nothing more while the store was out of reach, as its agent says or as it was broken, or until the run ended: it may have
// been stopped by other means; one whose process the nemesis has killed, or was gone by then, as one is that was
// killed before it came to say that it was asked to stop; one whose process stood still, so that it could report
// nothing more, if it was settled by its own agent; one of a request with several, whose
// connection stays, in the same way.
const HungIsCaught Name = "HungIsCaught"

// gone is the status of the response to a ping whose attempt is over.
const gone = "410"

// catch is what passes between the end of a window and the stop.
const catch = time.Second

func hungIsCaught(x *index, f *found) {
	for _, s := range x.records {
		for _, all := range [][]*attempt{s.attempts, s.checks} {
			for _, a := range all {
				x.inspectHung(s, a, f)
			}
		}
	}
}

func (x *index) inspectHung(s *record, a *attempt, f *found) {
	if a.start == nil || a.detached() {
		return
	}
	late, reason := x.overdue(a)
	if late != nil && !x.excused(s, a, late) {
		f.add(HungIsCaught, late.due, s.id, "fence %d %s, and was not stopped: %s", a.fence, reason, late.then())
	}
}

// overdue is when an attempt should have been stopped, and was not.
type overdue struct {
	since time.Duration  // of the silence
	due   time.Duration  // it should have been stopped by then
	next  *history.Event // what it reported after that; nil: nothing
}

func (o *overdue) then() string {
	if o.next == nil {
		return "it reported nothing more"
	}
	return string(o.next.What) + " came " + (o.next.At - o.due).Round(time.Millisecond).String() + " too late"
}

// overdue finds the first moment at which the attempt should have been stopped; nil: there is none.
func (x *index) overdue(a *attempt) (late *overdue, reason string) {
	k, since := &a.kind, a.start.At
	window, timeout := k.Heartbeat, forever-since
	if k.Timeout > 0 {
		timeout = k.Timeout + catch + x.slack
	}
	inspect := func(at time.Duration, next *history.Event) bool {
		if window > 0 && at-since > window+catch+x.slack {
			late, reason = &overdue{since, since + window + catch + x.slack, next}, "was silent for its heartbeat"
		} else if at-a.start.At > timeout {
			late, reason = &overdue{a.start.At, a.start.At + timeout, next}, "ran for longer than its timeout"
		}
		return late != nil
	}
	for _, e := range a.events {
		if e.At < a.start.At {
			continue
		}
		if inspect(e.At, e) {
			return late, reason
		}
		switch e.What {
		case history.End, history.Gone, history.Signal, history.Spared:
			return nil, ""
		case history.Ping:
			since = e.At
			if window > 0 {
				window = windowOf(k, e)
			}
		case history.Pinged: // it arrived at some time before that
			if e.Note == gone {
				return nil, ""
			}
			since = e.At
		default:
		}
	}
	inspect(x.end, nil)
	return late, reason
}

// excused reports whether a fault explains that an attempt went on.
func (x *index) excused(s *record, a *attempt, o *overdue) bool {
	meanwhile := span{o.since, o.due}
	agent := x.agent(a.who)
	if agent.killed <= o.due+obituary || agent.shaken(meanwhile) || x.weather.any(meanwhile, ofMachine) {
		return true
	}
	if e := a.first(history.Effect); e != nil && e.At <= o.due && s.endedWith(a.fence) {
		return true
	}
	if !a.child && x.weather.any(meanwhile, ofEndpoints) {
		return true
	}
	outcome, own := s.settledBy(a.fence)
	stopped := own && outcome != string(task.Succeeded) // by its own agent, which may show in nothing else
	if stopped && a.kind.Many {
		return true
	}
	if o.next != nil {
		return false
	}
	if x.slain(a, o.due) || x.died(a, o.due) || stopped && x.stopped(a, o.due) {
		return true
	}
	return outcome == string(task.Drained) || x.weather.any(span{a.start.At, o.due}, ofNetwork, ofServer, ofEndpoints)
}
