package check

import (
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// NoStaleSettlement says: the attempt that held a row decided its end. A row that succeeded did so by the attempt of its
// last claim, which reported success, completed the row itself, or had a check that found nothing left to do; its result is
// that attempt's. The store's history has one line for each attempt, and none of one that answered without having begun.
//
// It must hold because settlements match id, fence and session (rule 1), and what is refused is dropped; and a settlement
// that is repeated finds itself done (rule 10).
//
// Exempt says: attempts that end without having begun (released, lost, never delivered, timed out or failed before they
// could write anything down); the line of a reaper whose own hold was reaped, which has that hold's fence; a success whose
// attempt died before it could report its commit, as the effect that was committed with it proves.
const NoStaleSettlement Name = "NoStaleSettlement"

func noStaleSettlement(x *index, f *found) {
	for _, s := range x.records {
		if s.row != nil && s.finished() {
			x.inspectResult(s, f)
		}
		x.inspectTried(s, f)
	}
}

// inspectResult looks at what a finished row says of itself.
func (x *index) inspectResult(s *record, f *found) {
	of, says := resultOf(s.row.Result)
	made := of.Fence
	if s.row.State != string(task.StateSucceeded) {
		if says && !s.started(made) {
			f.add(NoStaleSettlement, x.last(s), s.id, "its result is of fence %d, which never started", made)
		}
		return
	}
	// The settlement that ended it raised the fence; one that ended well had no reaper in between.
	won := s.row.Fence - 1
	switch {
	case says && made != won:
		f.add(NoStaleSettlement, x.last(s), s.id, "it succeeded with fence %d, and its result is of fence %d", won, made)
	case s.check(won).wentWell(): // there was nothing left to do
	case !s.started(won):
		f.add(NoStaleSettlement, x.last(s), s.id, "it succeeded with fence %d, which never started", won)
	case !s.succeeded(won):
		f.add(NoStaleSettlement, x.last(s), s.id, "it succeeded with fence %d, which never said so", won)
	}
}

// succeeded reports whether the attempt with that fence, or the check before it, said that it succeeded, or may have completed
// the row itself.
func (s *record) succeeded(fence int64) bool {
	if s.check(fence).wentWell() {
		return true
	}
	if a := s.attempt(fence); a != nil && (a.wentWell() || a.first(history.Effect) != nil) {
		return true
	}
	for _, e := range s.effects {
		if e.Fence == fence {
			return true
		}
	}
	return false
}

// inspectTried looks at the store's history of a row.
func (x *index) inspectTried(s *record, f *found) {
	type line struct {
		fence int64
		phase string
	}
	seen := make(map[line]bool, len(s.tried))
	for _, t := range s.tried {
		at := x.last(s)
		if a := s.attempt(t.RanFence); a != nil {
			at = a.lastSeen()
		}
		l := line{t.RanFence, t.Phase}
		if seen[l] {
			f.add(NoStaleSettlement, at, s.id, "the attempt with fence %d was settled twice", t.RanFence)
		}
		seen[l] = true
		if t.Fence != t.RanFence && t.Fence != t.RanFence+1 {
			f.add(NoStaleSettlement, at, s.id, "the attempt with fence %d was settled with fence %d", t.RanFence, t.Fence)
		}
		switch task.Verdict(t.Outcome) {
		case task.Succeeded:
			if !s.succeeded(t.RanFence) {
				f.add(NoStaleSettlement, at, s.id, "the attempt with fence %d was settled as succeeded, which it never said", t.RanFence)
			}
		case task.Deferred, task.Superseded:
			if !s.started(t.RanFence) && s.check(t.RanFence) == nil {
				f.add(NoStaleSettlement, at, s.id, "the attempt with fence %d never started, and was settled as %s", t.RanFence, t.Outcome)
			}
		default: // these can be said of an attempt that never began
		}
	}
}
