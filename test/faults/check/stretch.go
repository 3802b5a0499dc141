package check

import (
	"cmp"
	"slices"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// stretch is a part of a task's life in which its attempts count together: the run of one round, or one rollback. A
// rollback that had failed and is tried again counts from zero.
type stretch struct {
	round    int
	phase    task.Phase
	after    int64 // the row's fence when it began: those of its attempts are higher
	until    int64 // the row's fence when the next one began; forever where none has
	first    *history.Move
	end      *ending // nil: it has not ended, or how was not recorded
	over     bool    // it has ended
	attempts []*attempt
	tried    []*history.Tried
}

// ending is how a row stood when it ended.
type ending struct {
	state   task.State
	fence   int64
	attempt int
	outcome task.Verdict
	reason  string // "": not known
}

// readStretches cuts the task's life at its moves. If no moves were recorded, only the phases are known.
func (s *record) readStretches(finished bool) {
	if len(s.moves) > 0 {
		s.cutAtMoves()
	} else {
		s.cutAtPhases()
	}
	last := len(s.stretches) - 1
	for i, st := range s.stretches {
		st.until = int64(forever)
		if i < last {
			st.until, st.over = s.stretches[i+1].after, true
		}
		st.attempts = filter(s.attempts, func(a *attempt) bool { return st.has(a.fence) })
		st.tried = filter(s.tried, func(t *history.Tried) bool { return st.has(t.RanFence) })
	}
	if finished { // the row itself has more of it than its last move
		r, st := s.row, s.stretches[last]
		st.over = true
		st.end = &ending{task.State(r.State), r.Fence, r.Attempt, task.Verdict(r.Outcome), r.Error}
	}
}

// has reports whether an attempt with that fence is of it.
func (st *stretch) has(fence int64) bool { return fence > st.after && fence <= st.until }

func filter[E any](all []E, keep func(E) bool) (some []E) {
	for _, e := range all {
		if keep(e) {
			some = append(some, e)
		}
	}
	return some
}

func (s *record) cutAtMoves() {
	var st *stretch
	for _, m := range s.moves {
		state := task.State(m.State)
		begins := st == nil
		switch state {
		case task.StatePending, task.StateRetryPending:
			begins = begins || st.phase != task.Run || st.end != nil || m.Round != st.round
		case task.StateRollbackPending:
			begins = begins || st.phase != task.Rollback || st.end != nil
		}
		if begins {
			st = &stretch{round: m.Round, phase: state.Phase(), after: m.Fence, first: m}
			s.stretches = append(s.stretches, st)
		}
		if m.Archived {
			st.end = &ending{state, m.Fence, m.Attempt, task.Verdict(m.Outcome), ""}
		}
	}
}

func (s *record) cutAtPhases() {
	s.stretches = []*stretch{{phase: task.Run}}
	first := int64(forever)
	for _, a := range s.attempts {
		if a.phase == task.Rollback {
			first = min(first, a.fence)
		}
	}
	for _, t := range s.tried {
		if t.Phase == string(task.Rollback) {
			first = min(first, t.RanFence)
		}
	}
	rolledBack := s.row != nil && rollingBack(task.State(s.row.State))
	if first < int64(forever) || rolledBack {
		if first == int64(forever) {
			first = s.row.Fence
		}
		s.stretches = append(s.stretches, &stretch{phase: task.Rollback, after: first - 1})
	}
}

// rollingBack reports whether a row in that state is being rolled back, or was.
func rollingBack(state task.State) bool {
	switch state {
	case task.StateRollbackPending, task.StateRollbackRunning, task.StateRolledBack, task.StateRollbackFailed:
		return true
	default:
		return false
	}
}

// stretch finds the one that an attempt with that fence is of; nil where the task has none.
func (s *record) stretch(fence int64) *stretch {
	for _, st := range s.stretches {
		if st.has(fence) {
			return st
		}
	}
	return nil
}

// moveAt is the last move of a row before a serial; nil: there is none.
func (s *record) moveAt(serial int64) *history.Move {
	i, _ := slices.BinarySearchFunc(s.moves, serial, func(m *history.Move, at int64) int { return cmp.Compare(m.Serial, at) })
	if i == 0 {
		return nil
	}
	return s.moves[i-1]
}

// waits reports whether a row in that state waits to be run.
func waits(state string) bool {
	return state == string(task.StatePending) || state == string(task.StateRetryPending)
}
