package check

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// RolledBackOnce says: what a task did is rolled back exactly once by a rollback that ends well, and by no other: in each
// round in which the row was rolled back its effect was rolled back once, if it stood; nothing is rolled back that does not stand,
// or outside of a rollback; no row that was started has ended as failed or cancelled where its type can roll it back; and a
// rollback that was promised to an operator comes, unless a retry is requested.
//
// It must hold because a rollback is an attempt like any other, with a fence of its own, so that hold and complete guard
// what it does; and Decide sends what was started there.
//
// Exempt says: a rollback whose transaction with hold committed and which failed all the same, because the reply was lost.
// With complete that cannot happen.
const RolledBackOnce Name = "RolledBackOnce"

func rolledBackOnce(x *index, f *found) {
	for _, s := range x.records {
		if s.row == nil {
			continue
		}
		x.inspectLeft(s, f)
		x.inspectPromised(s, f)
		if s.guarded() && x.h.Kinds[s.row.Type].Rollback != nil {
			x.inspectRolledBack(s, f)
		}
	}
}

// inspectLeft looks for what was started, has failed, and was left as it was.
func (x *index) inspectLeft(s *record, f *found) {
	if x.h.Kinds[s.row.Type].Rollback == nil {
		return
	}
	for _, m := range s.moves {
		if m.Archived && m.EverStarted && (m.State == string(task.StateFailed) || m.State == string(task.StateCancelled)) {
			f.add(RolledBackOnce, x.last(s), s.id, "it was started and is %s with fence %d, and nothing was rolled back", m.State, m.Fence)
		}
	}
}

// inspectPromised looks whether a rollback came that the store had answered for. A task that was not started is cancelled.
func (x *index) inspectPromised(s *record, f *found) {
	if !s.finished() || rollingBack(task.State(s.row.State)) || !s.row.EverStarted || x.requested(s, verbRetry, forever) {
		return
	}
	for _, o := range s.ops {
		if o.Verb == verbRollback && slices.Contains([]string{"cancelling", "rollback_pending", "rollback_running"}, o.Answer) {
			f.add(RolledBackOnce, o.At, s.id, "its rollback was answered with %q, and it is %s", o.Answer, s.row.State)
			return
		}
	}
}

// inspectRolledBack goes through what was made and rolled back, in the order of that.
func (x *index) inspectRolledBack(s *record, f *found) {
	at := x.last(s)
	var stands *history.EffectRow
	rolledBack := make(map[*stretch]int)
	missed := make(map[*stretch]bool) // there was something to roll back when it began
	next := 0
	begin := func(fence int64) { // notes what stood when stretches began that have begun by that fence
		for ; next < len(s.stretches) && s.stretches[next].after < fence; next++ {
			missed[s.stretches[next]] = stands != nil
		}
	}
	for _, e := range s.effects {
		begin(e.Fence)
		if !rollsBack(e) {
			stands = e
			continue
		}
		st := s.stretch(e.Fence)
		if st == nil || st.phase != task.Rollback {
			f.add(RolledBackOnce, at, s.id, "it was rolled back with fence %d, which was no rollback", e.Fence)
			continue
		}
		rolledBack[st]++
		switch {
		case stands == nil && e.RollsBack != 0:
			f.add(RolledBackOnce, at, s.id, "fence %d undid effect %d, which did not stand any more", e.Fence, e.RollsBack)
		case stands != nil && e.RollsBack != stands.Serial:
			f.add(RolledBackOnce, at, s.id, "fence %d undid effect %d, and effect %d stood", e.Fence, e.RollsBack, stands.Serial)
		}
		stands = nil
	}
	begin(int64(forever))
	for _, st := range s.stretches {
		if st.phase == task.Rollback {
			x.inspectRollback(s, st, rolledBack[st], missed[st], at, f)
		}
	}
	if stands != nil && s.finished() && s.row.State == string(task.StateRolledBack) {
		f.add(RolledBackOnce, at, s.id, "it is rolled back, and effect %d stands", stands.Serial)
	}
}

// inspectRollback looks at one rollback. stood: there was something to roll back when it began.
func (x *index) inspectRollback(s *record, st *stretch, rolledBack int, stood bool, at time.Duration, f *found) {
	if st.end == nil {
		return
	}
	well := st.end.state == task.StateRolledBack
	switch {
	case rolledBack > 1:
		f.add(RolledBackOnce, at, s.id, "its %s undid %d times", st.name(), rolledBack)
	case well && stood && rolledBack == 0:
		f.add(RolledBackOnce, at, s.id, "its %s ended well, and nothing was rolled back", st.name())
	case x.h.Kinds[s.row.Type].Guard != history.Completed:
	case well && rolledBack == 0:
		f.add(RolledBackOnce, at, s.id, "its %s ended well, and no attempt did it", st.name())
	case !well && rolledBack > 0:
		f.add(RolledBackOnce, at, s.id, "its %s has ended as %s, and it is rolled back", st.name(), st.end.state)
	}
}
