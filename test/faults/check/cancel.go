package check

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// CancelledStays says: what is cancelled stays so. No row is cancelled whose cancellation was not requested, and once the
// store has answered to a cancellation no further attempt of the row begins, but for one that had been claimed by then.
//
// It must hold because a row that waits goes to the archive with the cancellation itself; one that runs is marked, and
// an agent that settles it as waiting without having seen the mark is refused, and decides anew.
//
// Tolerated says: how long a claimed row may wait inside its agent, and History.Slack.
//
// Exempt says: a row that was cancelled for one that it waited for (CancelledForOne); a cancellation without an answer; rollbacks,
// which it does not stop, and what an operator's retry started; an agent that stood still between claim and start, and an endpoint, or
// a way to it, that was broken; a crash after the answer, which may lose a cancellation that was not flushed.
const CancelledStays Name = "CancelledStays"

func cancelledStays(x *index, f *found) {
	for _, s := range x.records {
		if s.row == nil || s.enqueued == nil {
			continue
		}
		x.inspectCancelled(s, f)
		for _, asked := range s.cancelledAt() {
			if !slices.ContainsFunc(x.h.Crashes, func(at time.Duration) bool { return at >= asked-x.slack }) {
				x.inspectStarts(s, asked, f)
			}
		}
	}
}

// cancelledAt is when the store said that the task is cancelled.
func (s *record) cancelledAt() (all []time.Duration) {
	if at := s.enqueued.Expects.CancelAt; at > 0 {
		all = append(all, at)
	}
	for _, o := range s.ops {
		stops := o.Verb == verbCancel || o.Verb == verbRollback
		if stops && o.At > 0 && slices.Contains([]string{"cancelled", "cancelling", "rollback_pending"}, o.Answer) {
			all = append(all, o.At)
		}
	}
	return all
}

// inspectStarts looks for attempts after a cancellation was answered.
func (x *index) inspectStarts(s *record, asked time.Duration, f *found) {
	for _, a := range s.attempts {
		if a.start != nil && a.phase == task.Run && a.start.At > asked+x.startsWithin(a) && !x.late(a) && !x.revived(s, asked, a.start.At) {
			f.add(CancelledStays, a.start.At, s.id, "fence %d started %s after a cancellation was answered",
				a.fence, (a.start.At - asked).Round(time.Millisecond))
			return
		}
	}
}

// revived reports whether an operator may have had the task retried after a cancellation, and before that time. What is
// asked of a batch is done bit by bit.
func (x *index) revived(s *record, cancelled, before time.Duration) bool {
	again := func(o *history.Op) bool {
		return o.Verb == verbRetry && o.Requested <= before && (o.Batch != 0 || o.At == 0 || o.At >= cancelled)
	}
	return slices.ContainsFunc(s.ops, again) || slices.ContainsFunc(x.batches.ops[s.batch()], again)
}

// cancelledOfSequence reports whether the cancellation of the rows of its sequence was requested.
func (x *index) cancelledOfSequence(s *record) bool {
	return s.enqueued.Sequence != "" && slices.ContainsFunc(x.h.Ops, func(o history.Op) bool {
		return o.Verb == verbCancel && o.Sequence == s.enqueued.Sequence && o.Kind == s.enqueued.Kind
	})
}

// inspectCancelled looks for a cancellation that was never requested.
func (x *index) inspectCancelled(s *record, f *found) {
	if s.row.State != string(task.StateCancelled) || s.enqueued.Expects.CancelRequested || s.enqueued.Expects.CancelAt != 0 ||
		s.becauseOf() != 0 || x.requested(s, verbCancel, forever) || x.requested(s, verbRollback, forever) || x.batches.stopped[s.batch()] || x.cancelledOfSequence(s) || x.cancelledAsOrphan(s) {
		return
	}
	for _, a := range s.attempts {
		if e := a.first(history.End); e != nil && e.Note == string(task.Cancelled) {
			return // its target said so itself
		}
	}
	f.add(CancelledStays, x.last(s), s.id, "it is cancelled, and no cancellation was requested")
}
