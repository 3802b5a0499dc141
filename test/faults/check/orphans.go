package check

import (
	"slices"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// OrphansWait says: a row of a type that no agent declares never starts. It waits until an operator gives it another type, once, and is
// from then on a row of that type like any other; or until one cancels it, and then it never runs. No other row gets another type.
//
// It must hold because agents claim by type, and because an operator's command changes only rows that wait, which it has locked.
//
// There are no exemptions: an operator whose command got no answer has asked for it none the less.
const OrphansWait Name = "OrphansWait"

func orphansWait(x *index, f *found) {
	moved := map[int64][]history.TypeMove{}
	for _, m := range x.h.TypeMoves {
		moved[m.ID] = append(moved[m.ID], m)
	}
	for _, s := range x.records {
		for _, m := range moved[s.id] {
			if !x.orphansAsked(m.From, m.To) {
				f.add(OrphansWait, x.last(s), s.id, "it got type %q in the place of %q, and no operator asked for that", m.To, m.From)
			}
		}
		if s.enqueued == nil || s.enqueued.Under == "" {
			continue
		}
		x.inspectOrphan(s, moved[s.id], f)
	}
}

// inspectOrphan looks at a row that was inserted under a type that no agent declares.
func (x *index) inspectOrphan(s *record, moved []history.TypeMove, f *found) {
	under, kind := s.enqueued.Under, s.enqueued.Kind
	for _, m := range s.moves {
		if m.Type == under && task.State(m.State).Running() {
			f.add(OrphansWait, x.last(s), s.id, "it was claimed with fence %d, and no agent declares %q", m.Fence, under)
		}
	}
	for _, a := range s.attempts {
		if a.start != nil && a.start.Kind != kind {
			f.add(OrphansWait, a.start.At, s.id, "fence %d started as one of type %q, and operators move these to %q", a.fence, a.start.Kind, kind)
		}
	}
	switch r := s.row; {
	case r == nil:
	case r.Type == under && len(moved) > 0:
		f.add(OrphansWait, x.last(s), s.id, "it has type %q again", under)
	case r.Type != under && (len(moved) != 1 || r.Type != kind):
		f.add(OrphansWait, x.last(s), s.id, "it has type %q, and got another type %d times since it had %q", r.Type, len(moved), under)
	case r.Type == under && (r.EverStarted || len(s.attempts)+len(s.checks) > 0):
		f.add(OrphansWait, x.last(s), s.id, "it has run, and no operator has moved it")
	}
}

// orphansAsked reports whether an operator asked for rows of a type to get another; into "": to be cancelled.
func (x *index) orphansAsked(typ, into string) bool {
	return slices.ContainsFunc(x.h.OrphanOps, func(o history.OrphanOp) bool { return o.Type == typ && o.Into == into })
}

// cancelledAsOrphan reports whether the cancellation of all rows of its type was requested, and the row has that type still.
func (x *index) cancelledAsOrphan(s *record) bool {
	return s.enqueued.Under != "" && s.row.Type == s.enqueued.Under && x.orphansAsked(s.row.Type, "")
}
