package check

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// OneHolderAtATime says: while a process may rely on a named lease, no other is granted it, and it is not told that it has lost it.
// It may rely on it from the reply to a call until the lease's ttl has passed since it began that call, by its own monotonic clock;
// not after it has begun to release it.
//
// It must hold because the lease lasts for ttl from a moment within the call, by the server's clock, and is not taken before.
//
// Nothing can be done under a grant whose reply comes after the ttl. If its fence is the lower one it proves nothing either: the
// lease was taken before the other's.
//
// Tolerated says: how far a clock drifts in some seconds; and the length of a jump of the server's clock that agents may take for
// a slow reply.
//
// Exempt says: a lease whose time has seen the second of two jumps of the server's clock that were not far from each other: where no
// heartbeat of an agent was in between, none of them has noticed, and the lease may have been written in between
// (docs/decisions/004-named-leases.md).
const OneHolderAtATime Name = "OneHolderAtATime"

// LeaseOutlivesJump says: a lease that a process could rely on when the server's clock jumped ahead is not taken within the agents'
// presence after the jump, whether it was renewed or not.
//
// It must hold because no agent vouches for the clock before it has seen no jump for its presence, and what one has said before the
// jump is older than the expiry. A jump back brings no expiry nearer: the first other that asks cuts the lease to its whole ttl. It
// may be taken once that is over, even by what an agent has said before the jump of a time that came again.
//
// Exempt says: what OneHolderAtATime exempts; a jump too small for agents.
const LeaseOutlivesJump Name = "LeaseOutlivesJump"

// HolderAsksAgain says: a process that does not know whether it was granted a lease, and asks again before the lease can have
// expired, gets the same fence.
const HolderAsksAgain Name = "HolderAsksAgain"

const (
	clockDrift = 50 * time.Millisecond
	noticed    = time.Second            // agents notice a jump by so much: half of that, and their estimate is as good as their network
	nearJumps  = 15 * time.Second       // between two jumps that all agents may miss, if they have no connection
	noted      = 200 * time.Millisecond // after the clock was set, the end of a fault is noted at the latest
)

// jump is one of the server's clock. It was somewhere between at and at+noted.
type jump struct {
	at   time.Duration
	by   time.Duration // without its sign; forever: it is not known
	back bool
}

// within reports whether the jump may have been in that time.
func (j *jump) within(s span) bool { return j.at+noted >= s.from && j.at <= s.to }

// belief is the time in which a process may rely on a lease because of one call, and the time in which it is not taken.
type belief struct {
	span

	call   *history.LeaseCall
	spared time.Duration // until when a jump has it spared; 0: there was none
}

func leaseBeliefs(x *index, f *found) {
	jumps := x.serverJumps()
	byName := map[string][]*belief{}
	open := map[leaseHolder][]*belief{}
	unknown := map[leaseHolder]*history.LeaseCall{} // fence 0: the first acquire since the last one that was answered
	for i := range x.h.Leases.Calls {
		c := &x.h.Leases.Calls[i]
		key := leaseHolder{leaseKey{c.Name, c.Fence}, c.Holder}
		switch {
		case c.Verb == history.Releasing:
			for _, b := range open[key] {
				b.to, b.spared = min(b.to, c.Asked), 0
			}
		case c.Answer == history.Lost:
			x.inspectLoss(c, open[key], jumps, f)
			for _, b := range open[key] {
				b.to, b.spared = min(b.to, c.At), 0
			}
		case c.Answer == history.Granted && (c.Verb == history.Acquire || c.Verb == history.Renew):
			b := &belief{span: span{c.At, c.Asked + c.TTL}, call: c}
			b.spared = x.spared(c, jumps)
			open[key] = append(open[key], b)
			byName[c.Name] = append(byName[c.Name], b)
		}
		if c.Verb == history.Acquire {
			x.inspectAgain(c, unknown, jumps, f)
		}
	}
	for name, all := range byName {
		inspectOverlaps(name, all, jumps, f)
	}
}

// inspectLoss looks whether a process lost a lease that it could rely on.
func (x *index) inspectLoss(c *history.LeaseCall, all []*belief, jumps []jump, f *found) {
	for _, b := range all {
		if n, broken := b.endsEarly(c.At, jumps); broken {
			f.addLease(n, c.At, c.Name, "%s lost fence %d, %s after it began a call that was granted, for %s",
				c.Holder, c.Fence, (c.At - b.call.Asked).Round(time.Millisecond), b.call.TTL)
			return
		}
	}
}

// endsEarly reports which promise is broken if the belief's lease is another's at that time.
func (b *belief) endsEarly(at time.Duration, jumps []jump) (n Name, broken bool) {
	in := span{b.call.Asked, at}
	if twoJumps(jumps, in) {
		return "", false
	}
	tolerance := clockDrift
	for _, j := range jumps {
		if j.by < noticed && j.within(in) {
			tolerance += j.by
		}
	}
	switch {
	case at < b.to-tolerance:
		return OneHolderAtATime, true
	case at < b.spared-clockDrift:
		return LeaseOutlivesJump, true
	}
	return "", false
}

// twoJumps reports whether the server's clock jumped in the time, and once more not long before that.
func twoJumps(jumps []jump, in span) bool {
	for i := 1; i < len(jumps); i++ {
		if jumps[i].within(in) && jumps[i].at-jumps[i-1].at < nearJumps {
			return true
		}
	}
	return false
}

// inspectOverlaps looks whether two processes could rely on a lease at once.
func inspectOverlaps(name string, all []*belief, jumps []jump, f *found) {
	slices.SortStableFunc(all, func(a, b *belief) int { return cmp.Compare(a.from, b.from) })
	seen := map[[2]int64]bool{}
	for i, b := range all {
		for _, other := range all[i+1:] {
			if other.from >= max(b.to, b.spared) {
				break
			}
			if other.to <= other.from && other.call.Fence < b.call.Fence {
				continue
			}
			pair := [2]int64{b.call.Fence, other.call.Fence}
			if pair[0] == pair[1] && b.call.Holder == other.call.Holder || seen[pair] {
				continue
			}
			if n, broken := b.endsEarly(other.from, jumps); broken {
				seen[pair] = true
				f.addLease(n, other.from, name, "%s was granted fence %d, %s after %s began a call that was granted, with fence %d, for %s",
					other.call.Holder, other.call.Fence, (other.from - b.call.Asked).Round(time.Millisecond), b.call.Holder, b.call.Fence, b.call.TTL)
			}
		}
	}
}

// inspectAgain looks whether a process that asks again gets what it has.
func (x *index) inspectAgain(
	c *history.LeaseCall, unknown map[leaseHolder]*history.LeaseCall, jumps []jump, f *found,
) {
	who := leaseHolder{leaseKey{c.Name, 0}, c.Holder}
	first := unknown[who]
	switch {
	case c.Answer == history.NoAnswer && first == nil:
		unknown[who] = c
	case c.Answer == history.Granted && first != nil:
		delete(unknown, who)
		if c.At >= first.Asked+c.TTL-clockDrift || twoJumps(jumps, span{first.Asked, c.At}) {
			return
		}
		known := x.fenceBefore(c.Name, first.Asked)
		for _, s := range x.h.Leases.Steps { // it took another in between, and cannot have lost it
			between := s.Fence > known && s.Fence < c.Fence
			if s.What == history.LeaseTaken && s.Name == c.Name && s.Holder == c.Holder && between && !x.knew(c.Holder, s.Fence, c.At) {
				f.addLease(HolderAsksAgain, c.At, c.Name, "%s was granted fence %d, and had taken it with fence %d, %s after it asked first",
					c.Holder, c.Fence, s.Fence, (c.At - first.Asked).Round(time.Millisecond))
			}
		}
	}
}

// fenceBefore is the highest fence of a lease that any process knew at that time: those up to it had been taken before.
func (x *index) fenceBefore(name string, at time.Duration) (known int64) {
	for _, c := range x.h.Leases.Calls {
		if c.Name == name && c.Answer == history.Granted && c.At <= at {
			known = max(known, c.Fence)
		}
	}
	return known
}

// knew reports whether a process was granted a fence before that time.
func (x *index) knew(holder string, fence int64, before time.Duration) bool {
	return slices.ContainsFunc(x.h.Leases.Calls, func(c history.LeaseCall) bool {
		return c.Fence == fence && c.Holder == holder && c.Answer == history.Granted && c.At < before
	})
}

// spared is until when a lease is not taken because the clock jumped while its holder could rely on it.
func (x *index) spared(c *history.LeaseCall, jumps []jump) (until time.Duration) {
	for _, j := range jumps {
		if !j.back && j.by >= noticed && j.at >= c.At && j.at <= c.Asked+c.TTL-clockDrift {
			until = max(until, j.at+x.h.Presence)
		}
	}
	return until
}

// serverJumps are the jumps of the server's clock, in their order: a fault has one at its beginning and one at its end.
func (x *index) serverJumps() (all []jump) {
	for _, w := range x.weather {
		if w.area != ofClocks {
			continue
		}
		by, err := time.ParseDuration(w.note[strings.LastIndexByte(w.note, ' ')+1:])
		if err != nil {
			by = forever
		}
		all = append(all, jump{w.from, by.Abs(), by < 0})
		if w.to < forever && w.to-w.from > noted {
			all = append(all, jump{w.to - noted, by.Abs(), by > 0 && by < forever})
		}
	}
	slices.SortFunc(all, func(a, b jump) int { return cmp.Compare(a.at, b.at) })
	return all
}
