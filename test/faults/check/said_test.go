package check_test

import (
	"testing"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

func TestCancelledStays(t *testing.T) {
	// asked makes the row of a cancellation that was answered at that time.
	asked := func(at float64) func(*enq, *row) {
		return func(e *enq, r *row) { e.Expects.CancelRequested, e.Expects.CancelAt = true, s(at) }
	}
	perform(t, []scene{
		{"it never starts", "", func(m *maker) { m.row(1, plain, "cancelled", 1, 0, asked(1)) }},
		{"it was claimed already", "", func(m *maker) {
			m.row(1, plain, "cancelled", 2, 1, asked(1))
			m.try(4.4, a1, 1, 1, 1).report(5, history.Gone)
		}},
		{"it succeeds all the same", "", func(m *maker) {
			m.row(1, plain, "succeeded", 2, 1, asked(2))
			m.try(1, a1, 1, 1, 1).end(3, "succeeded")
		}},
		{"no answer is known", "", func(m *maker) {
			m.row(1, plain, "cancelled", 2, 1, func(e *enq, r *row) { e.Expects.CancelRequested = true })
			m.try(5, a1, 1, 1, 1).report(6, history.Gone)
		}},
		{"the target says that it is cancelled", "", func(m *maker) {
			m.row(1, plain, "cancelled", 2, 1)
			m.try(5, a1, 1, 1, 1).end(6, "cancelled")
		}},
		{"its agent stood still before it sent the request", "", func(m *maker) {
			m.row(1, plain, "cancelled", 2, 1, asked(2))
			m.agent(1, history.Frozen, a1)
			m.agent(8, history.Thawed, a1)
			m.try(8.1, a1, 1, 1, 1).report(8.2, history.Gone)
		}},
		{"a crash forgot it", "", func(m *maker) {
			m.row(1, plain, "succeeded", 2, 1, asked(1))
			m.Crashes = append(m.Crashes, s(1.2))
			m.try(5, a1, 1, 1, 1).end(6, "succeeded")
		}},
		{"it starts long after", check.CancelledStays, func(m *maker) {
			m.row(1, plain, "succeeded", 2, 1, asked(1))
			m.try(4.6, a1, 1, 1, 1).end(6, "succeeded")
		}},
		{"an operator has it retried", "", func(m *maker) {
			m.row(1, plain, "succeeded", 4, 1, inRound(1))
			m.path(1, 0, "pending 0 0", "cancelled 1 0")
			m.path(1, 1, "pending 2 0", "running 3 1", "succeeded 4 1")
			m.request(1, "cancel", 1)
			m.request(5, "retry", 1)
			m.Ops[0].Answer = "cancelled"
			m.try(6, a1, 1, 3, 1).end(7, "succeeded")
		}},
		{"an operator had it retried before", check.CancelledStays, func(m *maker) {
			m.row(1, plain, "succeeded", 4, 1, inRound(1))
			m.path(1, 0, "pending 0 0", "cancelled 1 0")
			m.path(1, 1, "pending 2 0", "running 3 1", "succeeded 4 1")
			m.request(1, "retry", 1)
			m.request(2, "cancel", 1)
			m.Ops[1].Answer = "cancelled"
			m.try(6, a1, 1, 3, 1).end(7, "succeeded")
		}},
		{"it is tried again", check.CancelledStays, func(m *maker) {
			m.row(1, plain, "cancelled", 4, 2, asked(2))
			m.settled(1, 1, 1, "failed")
			m.settled(1, 3, 2, "cancelled")
			m.try(1, a1, 1, 1, 1).end(3, "failed")
			m.try(5.6, a1, 1, 3, 2).report(6, history.Gone)
		}},
		{"no cancellation was requested", check.CancelledStays, func(m *maker) { m.row(1, plain, "cancelled", 1, 0) }},
	})
}

func TestLossIsTrue(t *testing.T) {
	const (
		refused = "outcome refused: another has taken the row"
		lost    = "lease lost: another holds the row"
	)
	say := func(m *maker, at float64, fence int64, text string) {
		m.Said = append(m.Said, history.Said{At: s(at), Who: a1, Text: text, ID: 1, Fence: fence})
	}
	taken := func(m *maker) {
		twice(m, plain)
		m.try(1, a1, 1, 1, 1).report(3, history.Gone)
		m.try(5, a2, 1, 4, 2).end(6, "succeeded")
	}
	perform(t, []scene{
		{"a reaper had it", "", func(m *maker) {
			taken(m)
			say(m, 6, 1, refused)
			say(m, 6, 1, lost)
		}},
		{"of an unknown row, and of something else", "", func(m *maker) {
			say(m, 6, 1, refused)
			m.once(1, a1, 2, plain)
			m.Said = append(m.Said, history.Said{Text: "released", ID: 2, Fence: 1})
		}},
		{"it completed itself, and the store was out of reach", "", func(m *maker) {
			m.once(1, a1, 1, plain)
			m.broken(1, 2, "network cut")
			say(m, 2.5, 1, lost)
		}},
		{"its own settlement is in the history", check.LossIsTrue, func(m *maker) {
			taken(m)
			say(m, 6, 4, refused)
		}},
		{"a first attempt, which only the archive has", check.LossIsTrue, func(m *maker) {
			m.once(1, a1, 1, plain)
			say(m, 2.5, 1, refused)
		}},
		{"a reaper says so, which has settled", check.LossIsTrue, func(m *maker) {
			taken(m)
			say(m, 6, 2, refused)
		}},
		{"lost, by its own end, and the store was there", check.LossIsTrue, func(m *maker) {
			m.once(1, a1, 1, plain)
			say(m, 2.5, 1, lost)
		}},
	})
}

func TestOrderKept(t *testing.T) {
	placed := func(priority int, in float64) func(*enq, *row) {
		return func(e *enq, r *row) { e.Priority, e.RunAt = priority, s(in) }
	}
	// run adds a row that starts then.
	run := func(m *maker, at float64, who string, id int64, place func(*enq, *row)) {
		m.row(id, queue, "succeeded", 2, 1, place)
		m.try(at, who, id, 1, 1).end(at+0.5, "succeeded")
	}
	perform(t, []scene{
		{"by priority, due time, id", "", func(m *maker) {
			run(m, 20, a1, 4, placed(2, 0))
			run(m, 21, a1, 3, placed(1, -5))
			run(m, 22, a1, 1, placed(1, 0))
			run(m, 23, a1, 2, placed(1, 0))
		}},
		{"each agent has its own", "", func(m *maker) {
			run(m, 20, a1, 2, placed(0, 0))
			run(m, 21, a2, 1, placed(0, 0))
		}},
		{"it was not due", "", func(m *maker) {
			run(m, 20, a1, 2, placed(0, 0))
			run(m, 21, a1, 1, placed(5, 19))
		}},
		{"clocks stepped", "", func(m *maker) {
			m.broken(2, 3, "clock an hour ahead")
			run(m, 20, a1, 2, placed(0, 0))
			run(m, 21, a1, 1, placed(5, 1))
		}},
		{"a claim came to nothing", "", func(m *maker) {
			m.broken(18, 18, "network reset")
			run(m, 20, a1, 2, placed(0, 0))
			run(m, 21, a1, 1, placed(0, 0))
		}},
		{"it was released in between", "", func(m *maker) {
			run(m, 20, a1, 2, placed(0, 0))
			m.row(1, queue, "succeeded", 4, 1)
			m.try(21, a1, 1, 3, 1).end(21.5, "succeeded")
		}},
		{"another transaction", "", func(m *maker) {
			run(m, 20, a1, 2, placed(0, 0))
			run(m, 21, a1, 1, func(e *enq, r *row) { e.Cohort = "other" })
		}},
		{"several at a time", "", func(m *maker) {
			m.once(20, a1, 2, plain)
			m.once(21, a1, 1, plain)
		}},
		{"by id", check.OrderKept, func(m *maker) {
			run(m, 20, a1, 2, placed(0, 0))
			run(m, 21, a1, 1, placed(0, 0))
		}},
		{"by due time", check.OrderKept, func(m *maker) {
			run(m, 20, a1, 1, placed(0, 2))
			run(m, 21, a1, 2, placed(0, 1))
		}},
		{"by priority", check.OrderKept, func(m *maker) {
			run(m, 20, a1, 1, placed(0, 0))
			run(m, 21, a1, 2, placed(1, 0))
			run(m, 22, a1, 3, placed(-1, 0))
		}},
		{"long after something was broken", check.OrderKept, func(m *maker) {
			m.broken(1, 2, "network reset")
			run(m, 20, a1, 2, placed(0, 0))
			run(m, 21, a1, 1, placed(0, 0))
		}},
	})
}
