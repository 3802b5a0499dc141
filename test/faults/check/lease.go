package check

import (
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// LeaseFollowsPing says: a lease ends no later than a heartbeat and the time to stop after the last ping, and than the
// timeout and the time to stop after the start. Of a kind without a heartbeat the latter alone is asked.
//
// It must hold because only progress renews a lease (rule 2): the agent writes how old the ping is, not when it writes.
//
// Tolerated says: History.Slack, as a statement that carries an age may be held on its way; how long the query took;
// and for a lease that has not moved since its claim, the second in which a claimed row may wait, and what the agent adds
// to the window of a claim after one that took long, as it does while its way to the store is broken.
//
// Exempt says: as long as the agent stood still since the ping, for it may have worked out the age before; while the
// store's clock steps, and of attempts from before; a row whose attempt has not begun, or that is being reaped.
const LeaseFollowsPing Name = "LeaseFollowsPing"

// What an agent adds to the window of a claim: twice as long as the one before took, which the network may have held on
// the way there and on the way back. After it stood still, the most that there is.
const (
	extraHeld  = 4 // times Slack
	extraTimes = 2 // as long as the way to the store was broken, which may have been one claim
	extraMost  = 15 * time.Second
	extraPast  = time.Minute // how old that claim may be

	rounding = 50 * time.Millisecond // between two samples of one end
)

func leaseFollowsPing(x *index, f *found) {
	for i := range x.h.Samples {
		sample := &x.h.Samples[i]
		s := x.byID[sample.ID]
		if s == nil {
			continue
		}
		a := s.attempt(sample.Fence)
		if a == nil {
			continue
		}
		before := a.sample
		a.sample = sample
		if a.start == nil || a.start.At > sample.At ||
			before != nil && before.At+before.Left+before.Within+sample.Within+rounding >= sample.At+sample.Left {
			continue // it was not written since
		}
		if over, reason := x.tooLong(a, sample, before != nil); over > 0 {
			f.add(LeaseFollowsPing, sample.At, s.id, "the lease of fence %d lasts %s longer than it may: %s",
				a.fence, over.Round(time.Millisecond), reason)
		}
	}
}

// tooLong is by how much a lease ends too late, and after what; <= 0: it does not. renewed: it is not as its claim left it.
func (x *index) tooLong(a *attempt, sample *history.LeaseSample, renewed bool) (over time.Duration, reason string) {
	k := &a.kind
	window := k.Heartbeat
	if window == 0 {
		window = k.Timeout
	}
	if window == 0 {
		return 0, ""
	}
	tolerance := x.slack + sample.Within
	end := sample.At + sample.Left - tolerance
	first := a.start.At + startWait + k.Check + window + k.Stop
	most, since := first, a.start.At
	reason = "it started"
	if k.Heartbeat > 0 {
		if pinged, until := a.pinged(sample.At + sample.Within); pinged > 0 && (renewed || until > most) {
			most, since, reason = until, pinged, "it pinged"
		}
	}
	if k.Timeout > 0 {
		if whole := a.start.At + startWait + k.Check + max(k.Timeout, window) + k.Stop; whole < most {
			most, reason = whole, "its timeout"
		}
	}
	if end <= most { // it mostly is, and then no exemption is looked for
		return 0, ""
	}
	if x.weather.any(span{a.start.At - startWait - x.slack, sample.At}, ofClocks) {
		return 0, ""
	}
	if !renewed {
		most = max(most, first+x.extra(a))
	}
	return end - most - x.stood(a, span{since, sample.At}), reason
}

// pinged is the attempt's last ping before a moment, and until when its pings keep the lease going; 0: there is none.
func (a *attempt) pinged(before time.Duration) (last, until time.Duration) {
	for _, e := range a.events {
		if e.At > before {
			break
		}
		if e.What == history.Ping || e.What == history.End && e.Note == history.Accepted {
			last, until = e.At, max(until, e.At+windowOf(&a.kind, e)+a.kind.Stop)
		}
	}
	return last, until
}

// stood returns how long the receiver of an attempt's pings stood still: its agent, or after a 202 any agent.
func (x *index) stood(a *attempt, in span) time.Duration {
	longest := x.agent(a.who).stood(in)
	if a.detached() {
		for _, other := range x.agents {
			longest = max(longest, other.stood(in))
		}
	}
	return longest
}

// windowOf is how long a ping keeps a lease going.
func windowOf(k *history.Kind, ping *history.Event) time.Duration {
	if asked, err := time.ParseDuration(ping.Note); err == nil {
		return max(asked, k.Heartbeat)
	}
	return k.Heartbeat
}

// startsWithin is how long after its claim an attempt may start: what is left of its window is looked at before. A check
// that comes first takes its own time.
func (x *index) startsWithin(a *attempt) time.Duration {
	return startWait + a.kind.Check + x.extra(a) + x.slack
}

// extra is what the window of the claim may have been longer than the policy says.
func (x *index) extra(a *attempt) time.Duration {
	if x.agent(a.who).shaken(span{a.start.At - extraPast, a.start.At}) {
		return extraMost
	}
	held := extraHeld * x.slack
	for _, f := range x.weather {
		if f.area == ofNetwork || f.area == ofServer || f.area == ofAll {
			held += extraTimes * f.overlap(span{a.start.At - extraPast, a.start.At})
		}
	}
	return min(held, extraMost)
}
