package check_test

import (
	"testing"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

// booked is a row that made its effect with its first attempt and was rolled back by its second.
func booked(m *maker, kind string, perform func(m *maker)) {
	m.row(1, kind, "rolled_back", 6, 1, guarded, func(_ *enq, r *row) { r.EverStarted, r.Outcome = true, "succeeded" })
	m.path(1, 0, "pending 0 0", "running 1 1", "succeeded 2 1", "rollback_pending 3 0", "rollback_running 4 1", "rolled_back 5 1")
	m.Rows[0].Fence = 5
	m.request(3, "rollback", 1)
	m.try(1, a1, 1, 1, 1).report(1.4, history.Effect).end(1.5, "succeeded")
	m.settled(1, 1, 1, "succeeded")
	perform(m)
}

// rollingBack is the attempt to roll it back.
func rollingBack(m *maker) on {
	return m.rollBack(4, a2, 1, 4, 1).report(4.4, history.Effect).end(4.5, "succeeded")
}

func TestRolledBackOnce(t *testing.T) {
	perform(t, []scene{
		{"rolled back once", "", func(m *maker) {
			booked(m, book, func(m *maker) {
				m.effect(1, 1)
				m.rolledBack(1, 4, 1)
				rollingBack(m)
			})
		}},
		{"rolled back once, by what completes it", "", func(m *maker) {
			booked(m, paid, func(m *maker) {
				m.effect(1, 1)
				m.rolledBack(1, 4, 1)
				rollingBack(m)
			})
		}},
		{"nothing had happened", "", func(m *maker) {
			m.row(1, book, "rolled_back", 4, 1, guarded)
			m.path(1, 0, "pending 0 0", "running 1 1", "rollback_pending 2 0", "rollback_running 3 1", "rolled_back 4 1")
			m.try(1, a1, 1, 1, 1).end(2, "rejected")
			m.settled(1, 1, 1, "rejected")
			m.rollBack(3, a1, 1, 3, 1).end(4, "succeeded")
		}},
		{"made and rolled back in each of two rounds", "", func(m *maker) {
			booked(m, book, func(m *maker) {
				m.Rows[0].Round, m.Rows[0].Fence = 1, 11
				m.request(5, "retry", 1)
				m.request(8, "rollback", 1)
				m.path(1, 1, "pending 6 0", "running 7 1", "succeeded 8 1", "rollback_pending 9 0", "rollback_running 10 1", "rolled_back 11 1")
				rollingBack(m)
				m.settled(1, 4, 1, "succeeded")
				m.try(6, a1, 1, 7, 1).report(6.4, history.Effect).end(6.5, "succeeded")
				m.settled(1, 7, 1, "succeeded")
				m.rollBack(8, a2, 1, 10, 1).report(8.4, history.Effect).end(8.5, "succeeded")
				m.effect(1, 1)
				m.rolledBack(1, 4, 1)
				m.effect(1, 7)
				m.rolledBack(1, 10, 3)
			})
		}},
		{"failed after it was rolled back, with hold", "", func(m *maker) {
			booked(m, book, func(m *maker) {
				m.Rows[0].State, m.Rows[0].Outcome, m.Rows[0].Error = "rollback_failed", "rejected", "attempt 1 of 2 was rejected"
				m.Moves[len(m.Moves)-1].State = "rollback_failed"
				m.effect(1, 1)
				m.rolledBack(1, 4, 1)
				m.rollBack(4, a2, 1, 4, 1).report(4.4, history.Effect).end(4.5, "failed")
			})
		}},
		{"rolled back twice", check.RolledBackOnce, func(m *maker) {
			booked(m, book, func(m *maker) {
				m.effect(1, 1)
				m.rolledBack(1, 4, 1)
				m.rolledBack(1, 4, 1)
				rollingBack(m)
			})
		}},
		{"never rolled back", check.RolledBackOnce, func(m *maker) {
			booked(m, book, func(m *maker) {
				m.effect(1, 1)
				m.rollBack(4, a2, 1, 4, 1).end(4.5, "succeeded")
			})
		}},
		{"completed by no attempt", check.RolledBackOnce, func(m *maker) {
			m.row(1, paid, "rolled_back", 4, 1, guarded)
			m.path(1, 0, "pending 0 0", "running 1 1", "rollback_pending 2 0", "rollback_running 3 1", "rolled_back 4 1")
			m.try(1, a1, 1, 1, 1).end(2, "rejected")
			m.settled(1, 1, 1, "rejected")
			m.rollBack(3, a1, 1, 3, 1).end(4, "succeeded")
		}},
		{"failed after it was rolled back, with complete", check.RolledBackOnce, func(m *maker) {
			booked(m, paid, func(m *maker) {
				m.Rows[0].State, m.Rows[0].Outcome, m.Rows[0].Error = "rollback_failed", "rejected", "attempt 1 of 2 was rejected"
				m.Moves[len(m.Moves)-1].State = "rollback_failed"
				m.effect(1, 1)
				m.rolledBack(1, 4, 1)
				rollingBack(m)
			})
		}},
		{"another effect than the one that stood", check.RolledBackOnce, func(m *maker) {
			booked(m, book, func(m *maker) {
				m.effect(1, 1)
				m.rolledBack(1, 4, 7)
				rollingBack(m)
			})
		}},
		{"rolled back by an attempt to run", check.RolledBackOnce, func(m *maker) {
			m.row(1, book, "succeeded", 2, 1, guarded)
			m.path(1, 0, "pending 0 0", "running 1 1", "succeeded 2 1")
			m.try(1, a1, 1, 1, 1).report(1.4, history.Effect).end(1.5, "succeeded")
			m.effect(1, 1)
			m.rolledBack(1, 1, 1)
			m.effect(1, 1)
		}},
		{"promised, and it had not started", "", func(m *maker) {
			m.row(1, book, "cancelled", 2, 0, func(e *enq, _ *row) { e.Expects.CancelRequested = true })
			m.path(1, 0, "pending 0 0", "cancelled 1 0")
			m.request(0.5, "rollback", 1)
			m.Ops[0].Answer = "cancelling"
		}},
		{"promised, and it never came", check.RolledBackOnce, func(m *maker) {
			m.row(1, book, "succeeded", 2, 1, func(_ *enq, r *row) { r.EverStarted = true })
			m.path(1, 0, "pending 0 0", "running 1 1", "succeeded 2 1")
			m.try(1, a1, 1, 1, 1).end(2, "succeeded")
			m.request(1.5, "rollback", 1)
			m.Ops[0].Answer = "cancelling"
		}},
		{"started, failed, and left so", check.RolledBackOnce, func(m *maker) {
			m.row(1, book, "failed", 2, 1, func(_ *enq, r *row) { r.Outcome, r.EverStarted = "rejected", true })
			m.path(1, 0, "pending 0 0", "running 1 1", "failed 2 1")
			m.try(1, a1, 1, 1, 1).end(2, "rejected")
		}},
	})
}

func TestRollbackAfterEnd(t *testing.T) {
	// lost is a row whose agent closed its connection, and which was rolled back at that time.
	lost := func(m *maker, at float64) {
		m.row(1, book, "rolled_back", 4, 1)
		m.path(1, 0, "pending 0 0", "running 1 1", "rollback_pending 2 0", "rollback_running 3 1", "rolled_back 4 1")
		m.request(1.5, "cancel", 1)
		m.try(1, a1, 1, 1, 1).report(2, history.Gone)
		m.sample(1.9, 1, 1, 3)
		m.Samples[0].Present = s(10)
		m.settled(1, 1, 1, "cancelled")
		m.rollBack(at, a2, 1, 3, 1).end(at+1, "succeeded")
	}
	pinged := func(m *maker, at ...float64) {
		for _, at := range at {
			on{m: m, who: a1, kind: book, id: 1, fence: 1, number: 1}.report(at, history.Ping)
		}
	}
	perform(t, []scene{
		{"after the lease's end", "", func(m *maker) { lost(m, 5) }},
		{"at once after its own word", "", func(m *maker) {
			m.row(1, book, "rolled_back", 4, 1)
			m.path(1, 0, "pending 0 0", "running 1 1", "rollback_pending 2 0", "rollback_running 3 1", "rolled_back 4 1")
			m.try(1, a1, 1, 1, 1).end(2, "rejected")
			m.sample(1.9, 1, 1, 3)
			m.settled(1, 1, 1, "rejected")
			m.rollBack(2.1, a2, 1, 3, 1).end(3, "succeeded")
		}},
		{"while the store's clock steps", "", func(m *maker) {
			m.broken(0.5, 4, "clock of the server")
			lost(m, 3)
		}},
		{"while what a stepping clock wrote stands", "", func(m *maker) {
			m.broken(0.1, 0.8, "clock of the server")
			lost(m, 3)
		}},
		{"the first ping has made its lease shorter since", "", func(m *maker) {
			lost(m, 7)
			m.Samples[0].Left = s(6)
			pinged(m, 1.8)
		}},
		{"its session ended before its lease", "", func(m *maker) {
			lost(m, 4)
			m.Samples[0].Present = s(2)
			m.agent(2, history.Killed, a1)
		}},
		{"before the lease's end", check.RollbackAfterEnd, func(m *maker) { lost(m, 4) }},
		{"before the end of a longer lease, and its session is there", check.RollbackAfterEnd, func(m *maker) {
			lost(m, 4)
			m.Samples[0].Left = s(6)
			m.Samples[0].Present = s(1)
		}},
		{"before the end of a lease that pings had made longer", check.RollbackAfterEnd, func(m *maker) {
			lost(m, 8)
			m.Samples[0].At = s(6)
			pinged(m, 1.1, 4)
		}},
		{"retried before the lease's end", check.RollbackAfterEnd, func(m *maker) {
			m.row(1, web, "succeeded", 5, 1, inRound(1))
			m.path(1, 0, "pending 0 0", "running 1 1", "cancelled 2 1")
			m.path(1, 1, "pending 3 0", "running 4 1", "succeeded 5 1")
			m.request(1.5, "cancel", 1)
			m.request(3, "retry", 1)
			m.try(1, a1, 1, 1, 1).report(2, history.Gone)
			m.sample(1.9, 1, 1, 3)
			m.Samples[0].Present = s(10)
			m.settled(1, 1, 1, "cancelled")
			m.try(4, a2, 1, 4, 1).end(5, "succeeded")
		}},
		{"rolled back, and claimed to be run", check.RollbackAfterEnd, func(m *maker) {
			m.row(1, book, "succeeded", 2, 1)
			m.path(1, 0, "pending 0 0", "running 1 1", "succeeded 2 1")
			m.rollBack(1, a1, 1, 1, 1).end(2, "succeeded")
		}},
		{"a process that is rolled back while it lives", check.OneChildAtATime, func(m *maker) {
			m.row(1, built, "rolled_back", 4, 1)
			m.path(1, 0, "pending 0 0", "running 1 1", "rollback_pending 2 0", "rollback_running 3 1", "rolled_back 4 1")
			m.try(1, a1, 1, 1, 1).report(1.4, history.Ping).end(3, "rejected")
			m.settled(1, 1, 1, "rejected")
			m.rollBack(2, a2, 1, 3, 1).end(4, "succeeded")
		}},
		{"a request that is rolled back while it is open", check.OneRequestAtATime, func(m *maker) {
			m.row(1, book, "rolled_back", 4, 1)
			m.path(1, 0, "pending 0 0", "running 1 1", "rollback_pending 2 0", "rollback_running 3 1", "rolled_back 4 1")
			m.try(1, a1, 1, 1, 1).report(1.4, history.Ping).end(3, "rejected")
			m.settled(1, 1, 1, "rejected")
			m.rollBack(2, a2, 1, 3, 1).end(4, "succeeded")
		}},
	})
}

func TestFreshBudget(t *testing.T) {
	// again is a row that failed after its two attempts, and was retried.
	again := func(m *maker, second ...string) {
		m.row(1, web, "succeeded", 7, 1, inRound(1), func(e *enq, _ *row) { e.Expects.Limit = 2 })
		m.path(1, 0, "pending 0 0", "running 1 1", "retry_pending 2 1", "running 3 2", "failed 4 2")
		m.path(1, 1, second...)
		m.request(4, "retry", 1)
		m.try(1, a1, 1, 1, 1).end(1.5, "failed")
		m.try(2, a1, 1, 3, 2).end(2.5, "failed")
		m.settled(1, 1, 1, "failed")
		m.settled(1, 3, 2, "failed")
	}
	perform(t, []scene{
		{"from its first attempt on", "", func(m *maker) {
			again(m, "pending 5 0", "running 6 1", "succeeded 7 1")
			m.try(5, a1, 1, 6, 1).end(6, "succeeded")
		}},
		{"it fails again, after as many", "", func(m *maker) {
			again(m, "pending 5 0", "running 6 1", "retry_pending 7 1", "running 8 2", "failed 9 2")
			r := &m.Rows[0]
			r.State, r.Outcome, r.Error, r.Fence, r.Attempt = "failed", "failed", "attempt 2 of 2 failed", 9, 2
			m.try(5, a1, 1, 6, 1).end(6, "failed")
			m.try(7, a1, 1, 8, 2).end(8, "failed")
			m.settled(1, 6, 1, "failed")
			m.settled(1, 8, 2, "failed")
		}},
		{"what is left of it", check.FreshBudget, func(m *maker) {
			again(m, "pending 5 0", "running 6 1", "failed 7 1")
			r := &m.Rows[0]
			r.State, r.Outcome, r.Error = "failed", "failed", "attempt 1 of 1 failed"
			m.try(5, a1, 1, 6, 1).end(6, "failed")
			m.settled(1, 6, 1, "failed")
		}},
		{"counted on", check.FreshBudget, func(m *maker) {
			again(m, "pending 5 2", "running 6 1", "succeeded 7 1")
			m.try(5, a1, 1, 6, 1).end(6, "succeeded")
		}},
		{"in the same round", check.FreshBudget, func(m *maker) {
			again(m, "pending 5 0", "running 6 1", "succeeded 7 1")
			for i := range m.Moves {
				m.Moves[i].Round = 0
			}
			m.try(5, a1, 1, 6, 1).end(6, "succeeded")
		}},
		{"with a fence that fell", check.FreshBudget, func(m *maker) {
			again(m, "pending 4 0", "running 6 1", "succeeded 7 1")
			m.try(5, a1, 1, 6, 1).end(6, "succeeded")
		}},
		{"without a request", check.FreshBudget, func(m *maker) {
			again(m, "pending 5 0", "running 6 1", "succeeded 7 1")
			m.Ops = nil
			m.try(5, a1, 1, 6, 1).end(6, "succeeded")
		}},
		{"out of a state that is not retried", check.FreshBudget, func(m *maker) {
			m.row(1, web, "succeeded", 5, 1, inRound(1))
			m.path(1, 0, "pending 0 0", "running 1 1", "succeeded 2 1")
			m.path(1, 1, "pending 3 0", "running 4 1", "succeeded 5 1")
			m.request(3, "retry", 1)
			m.try(1, a1, 1, 1, 1).end(2, "succeeded")
			m.settled(1, 1, 1, "succeeded")
			m.try(4, a1, 1, 4, 1).end(5, "succeeded")
		}},
		{"more than it may have", check.AttemptsWithinLimit, func(m *maker) {
			m.row(1, built, "rolled_back", 8, 3)
			m.path(1, 0, "pending 0 0", "running 1 1", "rollback_pending 2 0", "rollback_running 3 1", "rollback_pending 4 1",
				"rollback_running 5 2", "rollback_pending 6 2", "rollback_running 7 3", "rolled_back 8 3")
			m.try(1, a1, 1, 1, 1).end(2, "rejected")
			m.settled(1, 1, 1, "rejected")
			for i, end := range []string{"failed", "failed", "succeeded"} {
				fence := int64(3 + 2*i)
				m.rollBack(float64(fence), a1, 1, fence, i+1).end(float64(fence)+1, end)
				m.settled(1, fence, i+1, end)
				m.Tried[len(m.Tried)-1].Phase = "rollback"
			}
		}},
	})
}

func TestChecks(t *testing.T) {
	perform(t, []scene{
		{"nothing is left to do", "", func(m *maker) {
			m.row(1, paid, "succeeded", 2, 1)
			m.check(1, a1, 1, 1, 1).end(1.1, history.Done)
		}},
		{"something is", "", func(m *maker) {
			m.row(1, paid, "succeeded", 2, 1)
			m.check(1, a1, 1, 1, 1).end(1.1, "open")
			m.try(1.2, a1, 1, 1, 1).end(2, "succeeded")
		}},
		{"it is deferred", "", func(m *maker) {
			m.row(1, paid, "succeeded", 4, 1)
			m.check(1, a1, 1, 1, 1).end(1.1, "deferred")
			m.settled(1, 1, 1, "deferred")
			m.check(2, a1, 1, 3, 1).end(2.1, history.Done)
		}},
		{"something is, and no run does it", check.NoStaleSettlement, func(m *maker) {
			m.row(1, paid, "succeeded", 2, 1)
			m.check(1, a1, 1, 1, 1).end(1.1, "open")
		}},
		{"it hangs, and is not stopped", check.HungIsCaught, func(m *maker) {
			m.row(1, paid, "succeeded", 2, 1)
			m.check(1, a1, 1, 1, 1).end(9, history.Done)
		}},
	})
}
