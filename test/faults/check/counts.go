package check

import (
	"strings"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// AttemptsWithinLimit says: no row gets more attempts that count than it may have, the row's own count is what the
// outcomes of its attempts add up to, and none is given up for want of attempts before that many have counted.
//
// It must hold because attempts count when they are claimed (rule 7), and all that becomes of a row is decided in one
// place (task.Decide).
//
// Exempt says: a row that is given up for another reason: rejected, past its deadline, an outcome that is not retried.
const AttemptsWithinLimit Name = "AttemptsWithinLimit"

// GivenBackAreFree says: an attempt that is given back does not count. Undelivered and drained ones never do, those
// that were asked to come later do not while that is free.
//
// It must hold because a task must not run out of attempts by what is not its fault (rule 7).
//
// Exempt says: being asked to come later more often in a row than the type allows.
const GivenBackAreFree Name = "GivenBackAreFree"

// defaultGiveBacks is how often in a row being asked to come later is free unless a type says otherwise.
const defaultGiveBacks = task.DefaultGiveBacks

func attemptsCount(x *index, f *found) {
	for _, s := range x.stories {
		if s.row == nil || s.undone() {
			continue
		}
		limit := s.row.MaxAttempts
		if s.enqueued != nil && s.enqueued.Expects.Limit > 0 {
			limit = s.enqueued.Expects.Limit
		}
		x.judgeNumbers(s, limit, f)
		c := counter{free: x.freeOf(s)}
		if !x.replay(s, &c, f) || !s.finished() {
			continue
		}
		if !c.final(s) {
			f.add(c.blame(), x.last(s), s.id, "its attempts add up to %d, and the row says %d", c.attempt, s.row.Attempt)
			continue
		}
		if limit > 0 && s.row.Attempt < limit && spent(s.row) {
			f.add(AttemptsWithinLimit, x.last(s), s.id, "it was given up after %d of %d attempts: %s", s.row.Attempt, limit, s.row.Error)
		}
	}
}

// freeOf is how often in a row the task may be asked to come later for free.
func (x *index) freeOf(s *story) int {
	switch n := x.h.Kinds[s.row.Type].GiveBacks; {
	case n < 0:
		return 0
	case n == 0:
		return defaultGiveBacks
	default:
		return n
	}
}

// judgeNumbers looks for attempts with a number above the limit.
func (x *index) judgeNumbers(s *story, limit int, f *found) {
	if limit == 0 {
		return
	}
	for _, a := range s.attempts {
		if a.number > limit {
			f.add(AttemptsWithinLimit, a.events[0].At, s.id, "fence %d is attempt %d of %d", a.fence, a.number, limit)
			return
		}
	}
	for _, t := range s.tried {
		if t.Attempt > limit {
			f.add(AttemptsWithinLimit, x.last(s), s.id, "fence %d was settled as attempt %d of %d", t.RanFence, t.Attempt, limit)
			return
		}
	}
	if s.row.Attempt > limit {
		f.add(AttemptsWithinLimit, x.last(s), s.id, "the row says that %d of %d attempts count", s.row.Attempt, limit)
	}
}

// counter counts attempts as Decide does.
type counter struct {
	free      int // how often in a row being asked to come later does not count
	attempt   int // that count
	giveBacks int // in a row
	last      task.Verdict
}

// after counts an attempt that ended so.
func (c *counter) after(v task.Verdict) {
	c.last = v
	switch v {
	case task.Undelivered, task.Drained:
		return
	case task.Deferred, task.Superseded:
		c.giveBacks++
		if c.giveBacks <= c.free {
			return
		}
	default:
		c.giveBacks = 0
	}
	c.attempt++
}

// blame is which invariant a wrong number breaks.
func (c *counter) blame() Name {
	if c.last.GivesBack() {
		return GivenBackAreFree
	}
	return AttemptsWithinLimit
}

// replay counts a row's history and compares each line's number; it is false where one is wrong.
func (x *index) replay(s *story, c *counter, f *found) bool {
	for _, t := range s.tried {
		if t.Phase != string(task.Run) {
			return false
		}
		if t.Attempt != c.attempt+1 {
			f.add(c.blame(), x.last(s), s.id, "fence %d was settled as attempt %d, and %d counted before it", t.RanFence, t.Attempt, c.attempt)
			return false
		}
		c.after(task.Verdict(t.Outcome))
	}
	return true
}

// final tells whether the row's count is what its history adds up to. A first attempt that ended its task has no line in
// the history; the row itself tells of it.
func (c *counter) final(s *story) bool {
	if s.row.Attempt == c.attempt && !c.unwritten(s) {
		return true
	}
	if c.attempt != 0 {
		return false
	}
	one := *c
	one.after(task.Verdict(s.row.Outcome))
	return s.row.Attempt == one.attempt
}

// unwritten tells whether the attempt that ended the task has no line in the history. Of a row that was cancelled the
// data does not tell whether an attempt was cancelled, or the row while it waited.
func (c *counter) unwritten(s *story) bool {
	if s.row.State == string(task.StateCancelled) {
		return false
	}
	return len(s.tried) == 0 || s.tried[len(s.tried)-1].Fence != s.row.Fence-1
}

// spent tells whether a row was given up for want of attempts, and nothing else.
func spent(r *history.Row) bool {
	if r.State != string(task.StateFailed) || r.Outcome == string(task.Rejected) {
		return false
	}
	return strings.HasPrefix(r.Error, "attempt ")
}
