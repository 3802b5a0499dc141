package check_test

import (
	"testing"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

func TestAbsenceIsFree(t *testing.T) {
	const killed = "killed by SIGKILL"
	says := func(m *maker, outcome, reason string) {
		m.Tried[len(m.Tried)-1].Outcome, m.Tried[len(m.Tried)-1].Error = outcome, reason
	}
	perform(t, []scene{
		{"it kills itself, and says so before", "", func(m *maker) {
			m.row(1, proc, "succeeded", 4, 2)
			m.try(1, a1, 1, 1, 1).end(2, "failed")
			m.settled(1, 1, 1, "failed")
			says(m, "failed", killed)
			m.try(4, a1, 1, 3, 2).end(5, "succeeded")
			m.settled(1, 3, 2, "succeeded")
		}},
		{"the kernel is out of memory", "", func(m *maker) {
			m.row(1, proc, "failed", 2, 1, func(e *enq, r *row) {
				e.Expects.Limit, r.Outcome, r.Error = 1, "failed", "attempt 1 of 1 failed: killed by SIGKILL, probably by the kernel: out of memory"
			})
		}},
		{"stopped because the store was away", "", func(m *maker) {
			m.row(1, proc, "succeeded", 4, 1)
			m.try(1, a1, 1, 1, 1).report(2, history.Signal)
			m.settled(1, 1, 1, "drained")
			says(m, "drained", "the store was out of reach")
			m.try(4, a1, 1, 3, 1).end(5, "succeeded")
			m.settled(1, 3, 1, "succeeded")
		}},
		{"killed at its birth, and charged", check.AbsenceIsFree, func(m *maker) {
			m.row(1, proc, "succeeded", 4, 2)
			m.settled(1, 1, 1, "failed")
			says(m, "failed", killed)
			m.try(4, a1, 1, 3, 2).end(5, "succeeded")
			m.settled(1, 3, 2, "succeeded")
		}},
		{"the same of a row that had one attempt", check.AbsenceIsFree, func(m *maker) {
			m.row(1, proc, "failed", 2, 1, func(e *enq, r *row) {
				e.Expects.Limit, r.Outcome, r.Error = 1, "failed", "attempt 1 of 1 failed: "+killed
			})
		}},
		{"killed while it worked, and charged", check.AbsenceIsFree, func(m *maker) {
			m.row(1, queue, "succeeded", 4, 2)
			m.try(1, a1, 1, 1, 1).report(1.1, history.Ping)
			m.settled(1, 1, 1, "failed")
			says(m, "failed", killed)
			m.try(4, a1, 1, 3, 2).end(5, "succeeded")
			m.settled(1, 3, 2, "succeeded")
		}},
		{"released, and its agent does not know why", check.AbsenceIsFree, func(m *maker) {
			m.row(1, proc, "succeeded", 4, 1)
			m.settled(1, 1, 1, "drained")
			says(m, "drained", killed+" "+task.BriefNote+", by something that the agent does not know of")
			m.try(4, a1, 1, 3, 1).end(5, "succeeded")
			m.settled(1, 3, 1, "succeeded")
		}},
	})
}
