package check_test

import (
	"fmt"
	"testing"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

func TestLineSettlesItsOwn(t *testing.T) {
	// played fails once and succeeds, each with a line of that author.
	played := func(m *maker, id, failed, won int64) {
		m.row(1, proc, "succeeded", 4, 2, func(_ *enq, r *row) { r.Result = fmt.Appendf(nil, `{"id": %d, "fence": %d}`, id, won) })
		m.try(1, a1, 1, 1, 1).end(2, "failed")
		m.settled(1, 1, 1, "failed")
		m.Tried[0].Error = fmt.Sprintf("attempt 1 of 3 failed: failed, says the line of %d/%d", id, failed)
		m.try(4, a1, 1, 3, 2).end(5, "succeeded")
		m.settled(1, 3, 2, "succeeded")
	}
	perform(t, []scene{
		{"its own lines", "", func(m *maker) { played(m, 1, 1, 3) }},
		{"the line of another task", check.LineSettlesItsOwn, func(m *maker) { played(m, 2, 1, 3) }},
		{"the line of a later attempt", check.LineSettlesItsOwn, func(m *maker) { played(m, 1, 3, 3) }},
		{"the result of an earlier attempt", check.NoStaleSettlement, func(m *maker) { played(m, 1, 1, 1) }},
		{"a row that fails by a line of another task", check.LineSettlesItsOwn, func(m *maker) {
			m.row(1, proc, "failed", 2, 1, func(e *enq, r *row) { e.Expects.Limit, r.Error = 1, "attempt 1 of 1 failed: says the line of 2/1" })
			m.try(1, a1, 1, 1, 1).end(2, "failed")
		}},
		{"cancelled with the error of an attempt before", "", func(m *maker) {
			m.row(1, proc, "cancelled", 3, 1, func(e *enq, r *row) { e.Expects.CancelRequested, r.Error = true, "failed, says the line of 1/1" })
			m.settled(1, 1, 1, "failed")
			m.try(1, a1, 1, 1, 1).end(2, "failed")
		}},
	})
}

// worker has the attempt run in that process.
func (a on) worker(pid int) on {
	a.m.Events[len(a.m.Events)-1].PID = pid
	return a
}

// hurt is what the nemesis does to a process.
func (m *maker) hurt(at float64, what history.What, pid int) {
	m.Events = append(m.Events, history.Event{At: s(at), What: what, Who: a1, PID: pid})
}

func TestWorkersAreHurt(t *testing.T) {
	// lost is a first attempt in process 7 that reports nothing more, and ends so.
	lost := func(m *maker, how, reason string) {
		k := m.Kinds[proc]
		k.Worker = true
		m.Kinds[proc] = k
		m.row(1, proc, "succeeded", 4, 2)
		m.try(1, a1, 1, 1, 1).worker(7)
		m.settled(1, 1, 1, how)
		m.Tried[0].Error = reason
		m.try(12, a1, 1, 3, 2).end(13, "succeeded")
		m.settled(1, 3, 2, "succeeded")
	}
	const killed = "killed by SIGKILL"
	perform(t, []scene{
		{"killed by the nemesis", "", func(m *maker) {
			lost(m, "failed", killed)
			m.hurt(1.5, history.Slain, 7)
		}},
		{"stopped by the nemesis", "", func(m *maker) {
			lost(m, "stalled", "no ping for 2s")
			m.hurt(1.5, history.Stopped, 7)
		}},
		{"stopped, and forgotten", check.HungIsCaught, func(m *maker) {
			lost(m, "lost", "")
			m.hurt(1.5, history.Stopped, 7)
		}},
		{"dead by then", "", func(m *maker) {
			lost(m, "stalled", "no ping for 2s")
			m.hurt(3, history.Dead, 7)
		}},
		{"dead, but not by then", check.HungIsCaught, func(m *maker) {
			lost(m, "stalled", "no ping for 2s")
			m.hurt(9, history.Dead, 7)
		}},
		{"another process is dead", check.HungIsCaught, func(m *maker) {
			lost(m, "stalled", "no ping for 2s")
			m.hurt(3, history.Dead, 8)
		}},
		{"another process is stopped", check.HungIsCaught, func(m *maker) {
			lost(m, "stalled", "no ping for 2s")
			m.hurt(1.5, history.Stopped, 8)
		}},
		{"killed before it began", "", func(m *maker) {
			lost(m, "failed", killed)
			m.Events = m.Events[:len(m.Events)-3] // the first attempt, and the second
			m.try(12, a1, 1, 3, 2).end(13, "succeeded")
			m.hurt(1.5, history.Slain, 9)
		}},
	})
}
