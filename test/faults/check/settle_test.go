package check_test

import (
	"testing"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

func TestNoStaleSettlement(t *testing.T) {
	// played is twice, with its attempts.
	played := func(m *maker) {
		twice(m, plain)
		m.try(1, a1, 1, 1, 1).end(1.2, "succeeded") // its answer never came
		m.try(9, a2, 1, 4, 2).end(10, "succeeded")
	}
	perform(t, []scene{
		{"the result of the last attempt", "", func(m *maker) {
			played(m)
			m.Rows[0].Result = result(4)
		}},
		{"a result that does not say", "", func(m *maker) {
			played(m)
			m.Rows[0].Result = []byte(`"done"`)
		}},
		{"it completed itself, and died before it could report that", "", func(m *maker) {
			m.row(1, web, "succeeded", 2, 1, func(e *enq, r *row) { e.Expects.Guarded, r.Result = true, result(1) })
			m.try(1, a1, 1, 1, 1)
			m.effect(1, 1)
		}},
		{"it completed itself, and does not know", "", func(m *maker) {
			m.row(1, web, "succeeded", 2, 1, func(e *enq, r *row) { e.Expects.Guarded = true })
			m.try(1, a1, 1, 1, 1).report(2, history.Effect, history.NoReply).end(2.1, "failed")
			m.effect(1, 1)
		}},
		{"a 202 that said later that it is done", "", func(m *maker) {
			m.row(1, web, "succeeded", 2, 1)
			m.try(1, a1, 1, 1, 1).end(2, history.Accepted).end(12, "succeeded")
		}},
		{"a reaper that was reaped", "", func(m *maker) {
			m.row(1, web, "succeeded", 6, 2)
			m.settled(1, 2, 1, "lost")
			m.settled(1, 5, 2, "succeeded")
			m.try(1, a1, 1, 1, 1).report(3.2, history.Gone)
			m.try(19, a2, 1, 5, 2).end(20, "succeeded")
		}},
		{"never started, and never delivered", "", func(m *maker) {
			m.row(1, web, "succeeded", 4, 1)
			m.settled(1, 1, 1, "undelivered")
			m.try(3, a2, 1, 3, 1).end(4, "succeeded")
		}},
		{"cancelled with a result of an attempt before", "", func(m *maker) {
			m.row(1, web, "cancelled", 3, 1, func(e *enq, r *row) { e.Expects.CancelRequested, r.Result = true, result(1) })
			m.settled(1, 1, 1, "failed")
			m.try(1, a1, 1, 1, 1).end(2, "failed")
		}},
		{"a result of an attempt that was taken over", check.NoStaleSettlement, func(m *maker) {
			played(m)
			m.Rows[0].Result = result(1)
		}},
		{"a result of no attempt", check.NoStaleSettlement, func(m *maker) {
			m.row(1, web, "cancelled", 3, 1, func(e *enq, r *row) { e.Expects.CancelRequested, r.Result = true, result(9) })
			m.settled(1, 1, 1, "failed")
			m.try(1, a1, 1, 1, 1).end(2, "failed")
		}},
		{"succeeded by no attempt", check.NoStaleSettlement, func(m *maker) { m.row(1, web, "succeeded", 2, 1) }},
		{"succeeded by one that said that it failed", check.NoStaleSettlement, func(m *maker) {
			m.row(1, web, "succeeded", 2, 1)
			m.try(1, a1, 1, 1, 1).end(2, "failed")
		}},
		{"succeeded by one that cut the connection", check.NoStaleSettlement, func(m *maker) {
			m.row(1, web, "succeeded", 2, 1)
			m.try(1, a1, 1, 1, 1).end(2, "cut")
		}},
		{"a 202 that never said that it is done", check.NoStaleSettlement, func(m *maker) {
			m.row(1, web, "succeeded", 2, 1)
			m.try(1, a1, 1, 1, 1).end(2, history.Accepted)
		}},
		{"settled twice", check.NoStaleSettlement, func(m *maker) {
			m.row(1, web, "succeeded", 6, 2)
			m.settled(1, 1, 1, "drained")
			m.settled(1, 1, 1, "lost")
			m.settled(1, 5, 1, "succeeded")
			m.Rows[0].Attempt = 1
			m.Tried[1].Outcome = "drained"
			m.try(1, a1, 1, 1, 1).report(3.2, history.Gone)
			m.try(9, a2, 1, 5, 1).end(10, "succeeded")
		}},
		{"settled with the fence of another hold", check.NoStaleSettlement, func(m *maker) {
			played(m)
			m.Tried[0].Fence = 4
			m.Tried[1].Fence = 4
		}},
		{"asked to come later by an attempt that never was", check.NoStaleSettlement, func(m *maker) {
			m.row(1, web, "succeeded", 4, 1)
			m.settled(1, 1, 1, "deferred")
			m.try(3, a2, 1, 3, 1).end(4, "succeeded")
		}},
		{"the history says succeeded of one that failed", check.NoStaleSettlement, func(m *maker) {
			m.row(1, web, "cancelled", 4, 2, func(e *enq, r *row) { e.Expects.CancelRequested = true })
			m.settled(1, 1, 1, "succeeded")
			m.settled(1, 3, 2, "cancelled")
			m.try(1, a1, 1, 1, 1).end(2, "failed")
			m.try(3, a1, 1, 3, 2).report(4, history.Gone)
		}},
	})
}

func TestGuardedEffectOnce(t *testing.T) {
	guarded := func(e *enq, r *row) { e.Expects.Guarded = true }
	perform(t, []scene{
		{"once", "", func(m *maker) {
			m.row(1, web, "succeeded", 2, 1, guarded)
			m.try(1, a1, 1, 1, 1).report(2, history.Effect).end(2, "succeeded")
			m.effect(1, 1)
		}},
		{"held and made, and found by the next", "", func(m *maker) {
			m.row(1, web, "succeeded", 4, 2, guarded)
			m.settled(1, 1, 1, "failed")
			m.settled(1, 3, 2, "succeeded")
			m.try(1, a1, 1, 1, 1).report(2, history.Effect).end(2.1, "failed")
			m.try(4, a1, 1, 3, 2).report(5, history.Effect).end(5.1, "succeeded")
			m.effect(1, 1)
		}},
		{"not known, and there", "", func(m *maker) {
			m.row(1, web, "succeeded", 2, 1, guarded)
			m.try(1, a1, 1, 1, 1).report(2, history.Effect, history.NoReply).end(2, "failed")
			m.effect(1, 1)
		}},
		{"not known, and not there", "", func(m *maker) {
			m.row(1, web, "failed", 2, 1, guarded, func(e *enq, r *row) { r.Outcome = "rejected" })
			m.try(1, a1, 1, 1, 1).report(2, history.Effect, history.NoReply).end(2, "rejected")
		}},
		{"relaxed, and gone with a crash", "", func(m *maker) {
			m.row(1, web, "failed", 2, 1, guarded, func(e *enq, r *row) { r.Outcome = "rejected" })
			m.try(1, a1, 1, 1, 1).report(2, history.Effect, history.Relaxed).end(2, "rejected")
			m.Crashes = append(m.Crashes, s(2.1))
		}},
		{"it died between the commit and the word of it", "", func(m *maker) {
			m.row(1, proc, "succeeded", 2, 1, guarded)
			m.try(1, a1, 1, 1, 1)
			m.agent(2, history.Killed, a1)
			m.effect(1, 1)
		}},
		{"refused, and not there", "", func(m *maker) {
			m.row(1, web, "succeeded", 5, 2, guarded)
			m.settled(1, 1, 1, "lost")
			m.settled(1, 4, 2, "succeeded")
			m.try(1, a1, 1, 1, 1).report(3, history.Gone).report(9, history.Refused)
			m.try(7, a2, 1, 4, 2).report(8, history.Effect).end(8, "succeeded")
			m.effect(1, 4)
		}},
		{"not asked for", "", func(m *maker) {
			m.once(1, a1, 1, web)
			m.effect(1, 1)
			m.effect(1, 1)
		}},
		{"twice", check.GuardedEffectOnce, func(m *maker) {
			m.row(1, web, "succeeded", 4, 2, guarded)
			m.settled(1, 1, 1, "failed")
			m.settled(1, 3, 2, "succeeded")
			m.try(1, a1, 1, 1, 1).report(2, history.Effect).end(2.1, "failed")
			m.try(4, a1, 1, 3, 2).report(5, history.Effect).end(5.1, "succeeded")
			m.effect(1, 1)
			m.effect(1, 3)
		}},
		{"never, and succeeded", check.GuardedEffectOnce, func(m *maker) {
			m.row(1, web, "succeeded", 2, 1, guarded)
			m.try(1, a1, 1, 1, 1).end(2, "succeeded")
		}},
		{"by an older fence after a newer one", check.GuardedEffectOnce, func(m *maker) {
			m.row(1, web, "succeeded", 5, 2, guarded)
			m.settled(1, 1, 1, "lost")
			m.settled(1, 4, 2, "succeeded")
			m.try(1, a1, 1, 1, 1).report(3, history.Gone).report(9, history.Effect)
			m.try(7, a2, 1, 4, 2).report(8, history.Effect).end(8, "succeeded")
			m.effect(1, 4)
			m.effect(1, 1)
		}},
		{"by no attempt", check.GuardedEffectOnce, func(m *maker) {
			m.row(1, web, "succeeded", 4, 2, guarded)
			m.settled(1, 1, 1, "failed")
			m.settled(1, 3, 2, "succeeded")
			m.try(4, a1, 1, 3, 2).report(5, history.Effect).end(5.1, "succeeded")
			m.effect(1, 1)
		}},
		{"confirmed as committed, and it is not there", check.GuardedEffectOnce, func(m *maker) {
			m.row(1, web, "failed", 2, 1, guarded, func(e *enq, r *row) { r.Outcome = "rejected" })
			m.try(1, a1, 1, 1, 1).report(2, history.Effect).end(2, "rejected")
		}},
		{"refused, and there", check.GuardedEffectOnce, func(m *maker) {
			m.row(1, web, "failed", 2, 1, guarded, func(e *enq, r *row) { r.Outcome = "rejected" })
			m.try(1, a1, 1, 1, 1).report(2, history.Refused).end(2, "rejected")
			m.effect(1, 1)
		}},
	})
}

func TestAttemptsCount(t *testing.T) {
	failed := func(because string) func(*enq, *row) {
		return func(e *enq, r *row) { r.Outcome, r.Error = "failed", because }
	}
	// tries plays attempts that end so, one after the other, and gives the fence that the row has then.
	tries := func(m *maker, id int64, hows ...string) {
		n, fence, back := 0, int64(1), 0
		for i, how := range hows {
			m.try(float64(3*i+1), a1, id, fence, n+1).end(float64(3*i+2), how)
			m.settled(id, fence, n+1, how)
			fence += 2
			switch how {
			case "drained", "undelivered":
			case "brief":
				line := &m.Tried[len(m.Tried)-1]
				line.Outcome, line.Error = "drained", "the agent was stopped "+task.BriefNote
				fallthrough
			case "deferred", "superseded":
				if back++; back > 2 {
					n++
				}
			default:
				n, back = n+1, 0
			}
		}
	}
	kindOf := func(m *maker) {
		k := m.Kinds[plain]
		k.Deferrals = 2
		m.Kinds[plain] = k
	}
	perform(t, []scene{
		{"out of attempts", "", func(m *maker) {
			m.row(1, plain, "failed", 6, 3, failed("attempt 3 of 3 failed: no"))
			tries(m, 1, "failed", "failed", "failed")
		}},
		{"a limit of its own", "", func(m *maker) {
			m.row(1, plain, "failed", 2, 1, failed("attempt 1 of 1 failed: no"), func(e *enq, r *row) {
				e.Expects.Limit, r.MaxAttempts = 0, 1
			})
			m.try(1, a1, 1, 1, 1).end(2, "failed")
		}},
		{"released, and not counted", "", func(m *maker) {
			kindOf(m)
			m.row(1, plain, "succeeded", 14, 2)
			tries(m, 1, "drained", "deferred", "superseded", "failed", "deferred", "undelivered", "succeeded")
		}},
		{"asked to come later too often", "", func(m *maker) {
			kindOf(m)
			m.row(1, plain, "failed", 10, 3, failed("attempt 3 of 3 was asked to come later (5 times in a row, and only 2 are free)"),
				func(e *enq, r *row) { r.Outcome = "deferred" })
			tries(m, 1, "deferred", "deferred", "deferred", "deferred", "deferred")
		}},
		{"drained at once too often", "", func(m *maker) {
			kindOf(m)
			m.row(1, plain, "failed", 10, 3, failed("attempt 3 of 3 was released (5 times in a row, and only 2 are free)"),
				func(e *enq, r *row) { r.Outcome = "drained" })
			tries(m, 1, "brief", "deferred", "brief", "brief", "brief")
		}},
		{"drained at once, and charged", check.ReleasedAreFree, func(m *maker) {
			kindOf(m)
			m.row(1, plain, "succeeded", 6, 2)
			tries(m, 1, "brief", "brief")
			m.try(7, a1, 1, 5, 2).end(8, "succeeded")
			m.settled(1, 5, 2, "succeeded")
		}},
		{"never free", "", func(m *maker) {
			k := m.Kinds[plain]
			k.Deferrals = -1
			m.Kinds[plain] = k
			m.row(1, plain, "succeeded", 4, 2)
			m.try(1, a1, 1, 1, 1).end(2, "deferred")
			m.settled(1, 1, 1, "deferred")
			m.try(4, a1, 1, 3, 2).end(5, "succeeded")
			m.settled(1, 3, 2, "succeeded")
		}},
		{"past its deadline", "", func(m *maker) {
			m.row(1, plain, "failed", 2, 1, failed("its deadline has passed; attempt 1 of 3 failed: no"))
			m.try(1, a1, 1, 1, 1).end(2, "failed")
		}},
		{"rejected", "", func(m *maker) {
			m.row(1, plain, "failed", 2, 1, failed("attempt 1 of 3 was rejected: no"), func(e *enq, r *row) { r.Outcome = "rejected" })
			m.try(1, a1, 1, 1, 1).end(2, "rejected")
		}},
		{"cancelled while it waited", "", func(m *maker) {
			m.row(1, plain, "cancelled", 3, 1, func(e *enq, r *row) { e.Expects.CancelRequested = true })
			tries(m, 1, "failed")
		}},
		{"cancelled and released at its first try", "", func(m *maker) {
			m.row(1, plain, "cancelled", 2, 0, func(e *enq, r *row) { e.Expects.CancelRequested, r.Outcome = true, "drained" })
			m.try(1, a1, 1, 1, 1).report(2, history.Gone)
		}},
		{"its rollback counts anew", "", func(m *maker) { m.row(1, plain, "rolled_back", 9, 1) }},
		{"more than it may have", check.AttemptsWithinLimit, func(m *maker) {
			m.row(1, plain, "failed", 8, 4, failed("attempt 4 of 3 failed: no"))
			tries(m, 1, "failed", "failed", "failed", "failed")
		}},
		{"more than it may have, none of which reported", check.AttemptsWithinLimit, func(m *maker) {
			m.row(1, plain, "failed", 8, 4, failed("attempt 4 of 3 was lost"))
			for n := range 4 {
				m.settled(1, int64(2*n+1), n+1, "lost")
				m.Tried[n].Fence--
			}
		}},
		{"the row counts more than it may", check.AttemptsWithinLimit, func(m *maker) {
			m.row(1, plain, "succeeded", 6, 4)
			tries(m, 1, "failed", "failed", "succeeded")
		}},
		{"the row counts otherwise", check.AttemptsWithinLimit, func(m *maker) {
			m.row(1, plain, "succeeded", 6, 2)
			tries(m, 1, "failed", "failed", "succeeded")
		}},
		{"one that failed is not counted", check.AttemptsWithinLimit, func(m *maker) {
			m.row(1, plain, "succeeded", 6, 2)
			tries(m, 1, "failed", "failed", "succeeded")
			m.Tried[1].Attempt, m.Tried[2].Attempt = 1, 2
		}},
		{"given up too early", check.AttemptsWithinLimit, func(m *maker) {
			m.row(1, plain, "failed", 4, 2, failed("attempt 2 of 3 failed: no"))
			tries(m, 1, "failed", "failed")
		}},
		{"what was released counts", check.ReleasedAreFree, func(m *maker) {
			m.row(1, plain, "succeeded", 4, 2)
			tries(m, 1, "drained")
			m.try(4, a1, 1, 3, 2).end(5, "succeeded")
			m.settled(1, 3, 2, "succeeded")
		}},
		{"being asked to come later counts at once", check.ReleasedAreFree, func(m *maker) {
			m.row(1, plain, "succeeded", 4, 2)
			tries(m, 1, "deferred")
			m.try(4, a1, 1, 3, 2).end(5, "succeeded")
			m.settled(1, 3, 2, "succeeded")
		}},
		{"the row counts what was released", check.ReleasedAreFree, func(m *maker) {
			m.row(1, plain, "cancelled", 3, 1, func(e *enq, r *row) { e.Expects.CancelRequested = true })
			tries(m, 1, "failed", "undelivered")
			m.Rows[0].Attempt, m.Rows[0].Fence = 2, 5
		}},
	})
}
