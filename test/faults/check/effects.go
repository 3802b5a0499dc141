package check

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// GuardedEffectOnce says: an effect that is made in one transaction with hold or complete happens exactly once for a
// task that succeeded, and at most once for any other, whatever attempts it took; once more, where it was rolled back in
// between. It is made by an attempt that began, never by one older than that of an effect before. An attempt whose commit
// was confirmed finds its effect, and one that was refused does not.
//
// It must hold because hold and complete raise unless the attempt holds the row at that moment, and keep the row from
// being taken away until the commit (docs/fencing.md).
//
// Exempt says: a commit whose reply never came, or that a crash may lose; an effect of an attempt that died before it
// could report it; an attempt that found an older one's effect there already, and says so as if it were its own.
const GuardedEffectOnce Name = "GuardedEffectOnce"

func guardedEffectOnce(x *index, f *found) {
	for _, s := range x.records {
		if !s.guarded() {
			continue
		}
		at := x.last(s)
		var stands *history.EffectRow
		top := int64(0)
		for _, e := range s.effects {
			if e.Fence < top {
				f.add(GuardedEffectOnce, at, s.id, "an effect with fence %d came after one with fence %d", e.Fence, top)
			}
			top = max(top, e.Fence)
			s.inspectEffect(e, at, f)
			switch {
			case rollsBack(e):
				stands = nil // RolledBackOnce looks whether rightly
			case stands != nil:
				f.add(GuardedEffectOnce, at, s.id, "its effect happened again with fence %d, and that of fence %d stood", e.Fence, stands.Fence)
			default:
				stands = e
			}
		}
		if stands == nil && s.finished() && s.row.State == string(task.StateSucceeded) {
			f.add(GuardedEffectOnce, at, s.id, "it succeeded, and its effect never happened")
		}
		for _, a := range s.attempts {
			s.inspectNotified(a, f)
		}
	}
}

// rollsBack reports whether an effect is that of a rollback.
func rollsBack(e *history.EffectRow) bool { return e.Phase == string(task.Rollback) }

// inspectEffect compares an effect with what its attempt reported.
func (s *record) inspectEffect(row *history.EffectRow, at time.Duration, f *found) {
	a := s.attempt(row.Fence)
	if a == nil || a.start == nil {
		f.add(GuardedEffectOnce, at, s.id, "an effect was made with fence %d, which never started", row.Fence)
		return
	}
	if a.first(history.Effect) != nil {
		return
	}
	// It reports the commit before anything else, so an attempt that reported its end knew of it.
	if e := a.first(history.Refused, history.End); e != nil && e.Note != history.Accepted {
		f.add(GuardedEffectOnce, e.At, s.id, "fence %d reported no effect before %s, and the effect is there", row.Fence, e.What)
	}
}

// inspectNotified looks whether the effects that an attempt reported are there.
func (s *record) inspectNotified(a *attempt, f *found) {
	for _, e := range a.events {
		if e.What != history.Effect || e.Note != "" {
			continue
		}
		there := false
		for _, row := range s.effects {
			there = there || row.Fence <= a.fence && rollsBack(row) == (a.phase == task.Rollback)
		}
		if !there {
			f.add(GuardedEffectOnce, e.At, s.id, "the effect of fence %d was confirmed as committed, and it is not there", a.fence)
			return
		}
	}
}
