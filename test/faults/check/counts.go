package check

import (
	"fmt"
	"strings"

	"github.com/leasehold/leasehold/internal/task"
)

// AttemptsWithinLimit says: no row gets more attempts that count than it may have, for each round's run and for each
// rollback anew; the row's own count is what the outcomes of its attempts add up to, and none fails because its attempts
// are used up before that many have counted.
//
// It must hold because attempts count when they are claimed (rule 7), and all that becomes of a row is decided in one
// place (task.Decide).
//
// Exempt says: a row that is given up for another reason: rejected, past its deadline, an outcome that is not retried.
const AttemptsWithinLimit Name = "AttemptsWithinLimit"

// ReleasedAreFree says: an attempt that is released does not count. Undelivered and drained ones never do, those
// that were asked to come later, or drained within moments of their start, do not while that is free.
//
// It must hold because a task must not run out of attempts by what is not its fault (rule 7).
//
// Exempt says: being asked to come later, or drained at once, more often in a row than the type allows.
const ReleasedAreFree Name = "ReleasedAreFree"

// defaultDeferrals is how often in a row being asked to come later is free unless a type says otherwise.
const defaultDeferrals = task.DefaultMaxDeferrals

// saysShared is what a row says of an attempt whose request had several, and failed as a whole.
const saysShared = "the request failed, which had "

func attemptsCount(x *index, f *found) {
	for _, s := range x.records {
		if s.row == nil {
			continue
		}
		for _, st := range s.stretches {
			x.attemptsOf(s, st, f)
		}
	}
}

// attemptsOf counts the attempts of one stretch.
func (x *index) attemptsOf(s *record, st *stretch, f *found) {
	limit := x.limitOf(s, st)
	x.inspectNumbers(s, st, limit, f)
	c := counter{free: x.freeOf(s)}
	if !x.replay(s, st, &c, f) || st.end == nil {
		return
	}
	if !c.final(st) {
		f.add(c.blame(), x.last(s), s.id, "its attempts of the %s add up to %d, and the row says %d as it was %s with fence %d",
			st.name(), c.attempt, st.end.attempt, st.end.state, st.end.fence)
		return
	}
	if limit > 0 && st.end.attempt < limit && spent(st.end) {
		name := AttemptsWithinLimit
		if st.round > 0 {
			name = FreshBudget
		}
		f.add(name, x.last(s), s.id, "it was given up after %d of %d attempts of the %s: %s", st.end.attempt, limit, st.name(), st.end.reason)
	}
}

// limitOf is how many attempts may count; 0: it is not known.
func (x *index) limitOf(s *record, st *stretch) int {
	if st.phase == task.Rollback {
		if rollBack := x.h.Kinds[s.row.Type].Rollback; rollBack != nil {
			return rollBack.Limit
		}
		return 0
	}
	if s.enqueued != nil && s.enqueued.Expects.Limit > 0 {
		return s.enqueued.Expects.Limit
	}
	return s.row.MaxAttempts
}

// name is the stretch, for people.
func (st *stretch) name() string {
	if st.round == 0 {
		return string(st.phase)
	}
	return fmt.Sprintf("%s of round %d", st.phase, st.round)
}

// freeOf is how often in a row the task may be asked to come later for free.
func (x *index) freeOf(s *record) int {
	switch n := x.h.Kinds[s.row.Type].Deferrals; {
	case n < 0:
		return 0
	case n == 0:
		return defaultDeferrals
	default:
		return n
	}
}

// inspectNumbers looks for attempts with a number above the limit.
func (x *index) inspectNumbers(s *record, st *stretch, limit int, f *found) {
	if limit == 0 {
		return
	}
	for _, a := range st.attempts {
		if a.number > limit {
			f.add(AttemptsWithinLimit, a.events[0].At, s.id, "fence %d is attempt %d of %d of the %s", a.fence, a.number, limit, st.name())
			return
		}
	}
	for _, t := range st.tried {
		if t.Attempt > limit {
			f.add(AttemptsWithinLimit, x.last(s), s.id, "fence %d was settled as attempt %d of %d", t.RanFence, t.Attempt, limit)
			return
		}
	}
	if st.end != nil && st.end.attempt > limit {
		f.add(AttemptsWithinLimit, x.last(s), s.id, "the row says that %d of %d attempts count", st.end.attempt, limit)
	}
}

// counter counts attempts as Decide does.
type counter struct {
	free      int // how often in a row being asked to come later does not count
	attempt   int // that count
	deferrals int // in a row
	last      task.Verdict
}

// after counts an attempt that ended so, for that reason.
func (c *counter) after(v task.Verdict, reason string) {
	c.last = v
	brief := v == task.Drained && strings.Contains(reason, task.BriefNote)
	switch {
	case v == task.Drained && strings.Contains(reason, saysShared):
		c.deferrals++
		return
	case v == task.Undelivered, v == task.Drained && !brief:
		return
	case v.Releases():
		c.deferrals++
		if c.deferrals <= c.free {
			return
		}
	default:
		c.deferrals = 0
	}
	c.attempt++
}

// blame is which invariant a wrong number breaks.
func (c *counter) blame() Name {
	if c.last.Releases() {
		return ReleasedAreFree
	}
	return AttemptsWithinLimit
}

// replay counts a stretch's history and compares each line's number; it is false where one is wrong.
func (x *index) replay(s *record, st *stretch, c *counter, f *found) bool {
	for _, t := range st.tried {
		if t.Attempt != c.attempt+1 {
			f.add(c.blame(), x.last(s), s.id, "fence %d was settled as attempt %d, and %d counted before it", t.RanFence, t.Attempt, c.attempt)
			return false
		}
		c.after(task.Verdict(t.Outcome), t.Error)
	}
	return true
}

// final reports whether the row's count is what its history adds up to. A first attempt that ended its task has no line in
// the history, but where a retry or rollback of the task was requested afterwards; the row itself has it then.
func (c *counter) final(st *stretch) bool {
	if st.end.attempt == c.attempt && !c.unwritten(st) {
		return true
	}
	if c.attempt != 0 {
		return false
	}
	one := *c
	one.after(st.end.outcome, st.end.reason)
	return st.end.attempt == one.attempt
}

// unwritten reports whether the attempt that ended the stretch has no line in the history. The data of
// a cancelled row do not show whether an attempt was cancelled, or the row while it waited.
func (c *counter) unwritten(st *stretch) bool {
	if st.end.state == task.StateCancelled {
		return false
	}
	return len(st.tried) == 0 || st.tried[len(st.tried)-1].Fence != st.end.fence-1
}

// spent reports whether a row failed because its attempts were used up, and for no other reason.
func spent(e *ending) bool {
	if e.state != task.StateFailed && e.state != task.StateRollbackFailed || e.outcome == task.Rejected {
		return false
	}
	return strings.HasPrefix(e.reason, "attempt ")
}
