package check

import (
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// LeaseFencesRise says: each taking of a named lease has a higher fence than all before it, of any name; no fence has two holders;
// and whoever was granted a fence has taken the lease with it.
//
// It must hold because the number is drawn from one sequence after the row was locked, and an acquire commits synchronously.
const LeaseFencesRise Name = "LeaseFencesRise"

// LeaseEffectsGuarded says: an effect that is made in one transaction with hold_lease is made by the holder of that moment: after
// its taking of the lease, and before any other's, before its release, and before the removal of the lease.
//
// It must hold because hold_lease raises unless the lease is held with that fence, and keeps it until the commit.
//
// There are no exemptions: neither a jump of a clock nor a frozen holder excuses an effect.
const LeaseEffectsGuarded Name = "LeaseEffectsGuarded"

// leaseKey names one taking.
type leaseKey struct {
	name  string
	fence int64
}

func leaseSteps(x *index, f *found) {
	now, top := map[string]*history.LeaseStep{}, map[string]int64{}
	holder, taken := map[int64]leaseHolder{}, map[leaseHolder]bool{}
	for i := range x.h.Leases.Steps {
		s := &x.h.Leases.Steps[i]
		at := x.leaseAt(s.Name, s.Fence)
		switch s.What {
		case history.LeaseTaken:
			if s.Fence <= top[s.Name] {
				f.addLease(LeaseFencesRise, at, s.Name, "%s took it with fence %d, after fence %d", s.Holder, s.Fence, top[s.Name])
			} else if h, twice := holder[s.Fence]; twice {
				f.addLease(LeaseFencesRise, at, s.Name, "%s took it with fence %d, which is %s's, of %q", s.Holder, s.Fence, h.holder, h.name)
			}
			top[s.Name] = max(top[s.Name], s.Fence)
			holder[s.Fence] = leaseHolder{leaseKey{s.Name, s.Fence}, s.Holder}
			taken[holder[s.Fence]] = true
			now[s.Name] = s
		case history.LeaseFree:
			delete(now, s.Name)
		case history.LeaseEffect:
			switch has := now[s.Name]; {
			case has == nil:
				f.addLease(LeaseEffectsGuarded, at, s.Name, "%s made an effect with fence %d, and no one had it", s.Holder, s.Fence)
			case has.Fence != s.Fence || has.Holder != s.Holder:
				f.addLease(LeaseEffectsGuarded, at, s.Name, "%s made an effect with fence %d, and %s had it with fence %d",
					s.Holder, s.Fence, has.Holder, has.Fence)
			}
		}
	}
	for i := range x.h.Leases.Calls {
		c := &x.h.Leases.Calls[i]
		if c.Answer != history.Granted || c.Verb != history.Acquire && c.Verb != history.Renew {
			continue
		}
		if !taken[leaseHolder{leaseKey{c.Name, c.Fence}, c.Holder}] {
			f.addLease(LeaseFencesRise, c.At, c.Name, "%s was granted fence %d by %s, and has never taken it", c.Holder, c.Fence, c.Verb)
		}
	}
}

// leaseHolder is who has a taking.
type leaseHolder struct {
	leaseKey

	holder string
}

// leaseAt is when a taking is known of for the last time, the history's end where it never is.
func (x *index) leaseAt(name string, fence int64) time.Duration {
	at := time.Duration(0)
	for i := range x.h.Leases.Calls {
		if c := &x.h.Leases.Calls[i]; c.Name == name && c.Fence == fence {
			at = c.At
		}
	}
	if at == 0 {
		return x.end
	}
	return at
}

// addLease adds a violation about a named lease.
func (f *found) addLease(n Name, at time.Duration, name, format string, args ...any) {
	f.add(n, at, 0, format, args...)
	f.all[len(f.all)-1].Lease = name
}
