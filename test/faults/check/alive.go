package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// OneChildAtATime says: no two subprocess attempts of a row are alive at once, whatever they are for: to check, run or roll back. A child that starts finds no other alive
// (they take a lock that the kernel frees at their death, so this is the kernel's word), and no attempt reports anything
// once a later one has begun.
//
// It must hold because for a subprocess the end of a lease means dead (rule 4): the agent, or the guardian in its place,
// has killed everything of it a second earlier.
//
// Exempt says: nothing. A process that an attempt leaves behind on purpose no longer belongs to it once the attempt has
// ended without being stopped, so what comes after its end is not looked at. The check does not guess when a silent one died.
const OneChildAtATime Name = "OneChildAtATime"

func oneChildAtATime(x *index, f *found) {
	var children []*attempt
	for _, s := range x.records {
		children = children[:0]
		for _, all := range [][]*attempt{s.attempts, s.checks} {
			for _, a := range all {
				if e := a.first(history.Overlap); e != nil {
					f.add(OneChildAtATime, e.At, s.id, "the process with fence %d found that of fence %s alive", e.Fence, e.Note)
				}
				if a.child && a.start != nil {
					children = append(children, a)
				}
			}
		}
		slices.SortStableFunc(children, func(a, b *attempt) int { return cmp.Compare(a.start.At, b.start.At) })
		var longest *attempt // the one of those before that was seen alive last
		for _, a := range children {
			if longest != nil && longest.alive() > a.start.At {
				f.add(OneChildAtATime, a.start.At, s.id, "the process with fence %d started while that of fence %d was alive, which it was %s later",
					a.fence, longest.fence, (longest.alive() - a.start.At).Round(time.Millisecond))
			}
			if longest == nil || a.alive() > longest.alive() {
				longest = a
			}
		}
	}
}

// alive is the last moment at which a child is known to have been alive.
func (a *attempt) alive() time.Duration {
	if e := a.first(history.End); e != nil {
		return e.At
	}
	return a.lastSeen()
}
