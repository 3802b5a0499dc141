package check_test

import (
	"testing"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

// twice makes a row that is lost at its first try and succeeds at the second.
func twice(m *maker, kind string) {
	m.row(1, kind, "succeeded", 5, 2)
	m.settled(1, 1, 1, "lost")
	m.settled(1, 4, 2, "succeeded")
}

func TestOneChildAtATime(t *testing.T) {
	perform(t, []scene{
		{"one after the other", "", func(m *maker) {
			twice(m, proc)
			m.try(1, a1, 1, 1, 1).report(2, history.Ping)
			m.agent(2.5, history.Killed, a1)
			m.try(20, a2, 1, 4, 2).end(21, "succeeded")
		}},
		{"what it left behind goes on", "", func(m *maker) {
			m.row(1, proc, "succeeded", 4, 2)
			m.settled(1, 1, 1, "failed")
			m.settled(1, 3, 2, "succeeded")
			m.try(1, a1, 1, 1, 1).end(2, "failed").report(6, history.Refused)
			m.try(5, a2, 1, 3, 2).end(7, "succeeded")
		}},
		{"requests may overlap when their agent is gone", "", func(m *maker) {
			twice(m, web)
			m.try(1, a1, 1, 1, 1).report(2.9, history.Gone).report(21, history.Refused)
			m.agent(2.5, history.Killed, a1)
			m.try(20, a2, 1, 4, 2).end(21, "succeeded")
		}},
		{"it found the other alive", check.OneChildAtATime, func(m *maker) {
			twice(m, proc)
			m.try(1, a1, 1, 1, 1)
			m.agent(2, history.Killed, a1)
			m.try(20, a2, 1, 4, 2).report(20, history.Overlap, "1").end(21, "succeeded")
		}},
		{"the first one spoke after the second one's start", check.OneChildAtATime, func(m *maker) {
			twice(m, proc)
			m.agent(2, history.Frozen, a1)
			m.try(1, a1, 1, 1, 1).report(20.5, history.Ping)
			m.agent(30, history.Thawed, a1)
			m.try(20, a2, 1, 4, 2).end(21, "succeeded")
		}},
		{"the first one ended after the second one's start", check.OneChildAtATime, func(m *maker) {
			twice(m, proc)
			m.agent(2, history.Frozen, a1)
			m.try(1, a1, 1, 1, 1).end(20.01, "succeeded")
			m.agent(30, history.Thawed, a1)
			m.try(20, a2, 1, 4, 2).end(21, "succeeded")
		}},
	})
}

func TestOneRequestAtATime(t *testing.T) {
	second := func(m *maker, at float64) { m.try(at, a2, 1, 4, 2).end(at+1, "succeeded") }
	perform(t, []scene{
		{"one after the other", "", func(m *maker) {
			twice(m, web)
			m.try(1, a1, 1, 1, 1).report(3.2, history.Gone)
			second(m, 9)
		}},
		{"noticed a little late", "", func(m *maker) {
			twice(m, web)
			m.try(1, a1, 1, 1, 1).report(3.29, history.Gone)
			second(m, 3)
		}},
		{"its agent stood still", "", func(m *maker) {
			twice(m, web)
			m.agent(1.5, history.Frozen, a1)
			m.try(1, a1, 1, 1, 1).report(32, history.Gone)
			m.agent(30, history.Thawed, a1)
			second(m, 20)
		}},
		{"its agent has just gone on", "", func(m *maker) {
			twice(m, web)
			m.agent(1.5, history.Frozen, a1)
			m.agent(19.9, history.Thawed, a1)
			m.try(1, a1, 1, 1, 1).report(21, history.Gone)
			second(m, 20)
		}},
		{"its agent is dead since just now", "", func(m *maker) {
			twice(m, web)
			m.agent(3, history.Killed, a1)
			m.try(1, a1, 1, 1, 1).report(3.9, history.Gone)
			second(m, 3)
		}},
		{"accepted with a 202", "", func(m *maker) {
			m.row(1, web, "succeeded", 5, 2)
			m.settled(1, 1, 1, "stalled")
			m.Tried[0].Fence = 2
			m.settled(1, 4, 2, "succeeded")
			m.try(1, a1, 1, 1, 1).end(1.5, history.Accepted).report(21, history.Refused)
			second(m, 20)
		}},
		{"the endpoint was broken", "", func(m *maker) {
			twice(m, web)
			m.try(1, a1, 1, 1, 1).report(2, history.Ping).report(3, history.Ping).report(15, history.Gone)
			m.broken(2, 14, "endpoint hears nothing")
			second(m, 9)
		}},
		{"it reported nothing more", "", func(m *maker) {
			twice(m, web)
			m.try(1, a1, 1, 1, 1)
			m.broken(2, 3, "endpoint killed")
			second(m, 9)
		}},
		{"it was open", check.OneRequestAtATime, func(m *maker) {
			twice(m, plain)
			m.try(1, a1, 1, 1, 1).report(3.4, history.Gone)
			second(m, 3)
		}},
		{"it was at work, and its request was open", check.OneRequestAtATime, func(m *maker) {
			twice(m, plain)
			m.try(1, a1, 1, 1, 1).report(3.4, history.Ping).report(11, history.Gone)
			second(m, 3)
		}},
		{"long after its agent went on", check.OneRequestAtATime, func(m *maker) {
			twice(m, plain)
			m.agent(1.5, history.Frozen, a1)
			m.agent(2, history.Thawed, a1)
			m.try(1, a1, 1, 1, 1).report(9, history.Gone)
			second(m, 8)
		}},
		{"long after its agent was killed", check.OneRequestAtATime, func(m *maker) {
			twice(m, plain)
			m.agent(2, history.Killed, a1)
			m.try(1, a1, 1, 1, 1).report(21, history.Gone)
			second(m, 20)
		}},
	})
}

func TestFencesRise(t *testing.T) {
	perform(t, []scene{
		{"they rise", "", func(m *maker) {
			twice(m, web)
			m.try(1, a1, 1, 1, 1).report(3.2, history.Gone)
			m.try(9, a2, 1, 4, 2).end(10, "succeeded")
		}},
		{"released: the number comes again", "", func(m *maker) {
			m.row(1, web, "succeeded", 4, 1)
			m.settled(1, 1, 1, "drained")
			m.try(1, a1, 1, 1, 1).report(2, history.Gone)
			m.try(3, a2, 1, 3, 1).end(4, "succeeded")
		}},
		{"its agent stood still before it sent the request", "", func(m *maker) {
			twice(m, web)
			m.agent(1, history.Frozen, a1)
			m.try(9, a2, 1, 4, 2).end(10, "succeeded")
			m.agent(20, history.Thawed, a1)
			m.try(20.1, a1, 1, 1, 1).report(20.2, history.Gone)
		}},
		{"the way to the endpoint was broken", "", func(m *maker) {
			twice(m, web)
			m.broken(1, 20, "endpoint slow")
			m.try(9, a2, 1, 4, 2).end(10, "succeeded")
			m.try(20.1, a1, 1, 1, 1).report(20.2, history.Gone)
		}},
		{"a live row has the fence of its attempt", check.CommittedEnds, func(m *maker) {
			m.row(1, web, "running", 1, 1, func(e *enq, r *row) { r.Live, r.Archived = true, 0 })
			m.try(1, a1, 1, 1, 1)
		}},
		{"an old one after a new one", check.FencesRise, func(m *maker) {
			twice(m, web)
			m.try(9, a2, 1, 4, 2).end(10, "succeeded")
			m.try(20.1, a1, 1, 1, 1).report(20.2, history.Gone)
		}},
		{"the same twice", check.FencesRise, func(m *maker) {
			m.once(1, a1, 1, web)
			m.try(3, a1, 1, 1, 1).end(4, "succeeded")
		}},
		{"above what the row has in the end", check.FencesRise, func(m *maker) {
			m.once(1, a1, 1, web)
			m.try(3, a1, 1, 3, 2).end(4, "failed")
		}},
		{"as high as the fence of the end", check.FencesRise, func(m *maker) {
			m.once(1, a1, 1, web)
			m.try(3, a1, 1, 2, 1).end(4, "failed")
		}},
		{"a number falls", check.FencesRise, func(m *maker) {
			twice(m, web)
			m.settled(1, 6, 3, "succeeded")
			m.Tried[1].Outcome = "failed"
			m.Rows[0].Fence, m.Rows[0].Attempt = 7, 3
			m.try(1, a1, 1, 1, 1).report(3.2, history.Gone)
			m.try(9, a2, 1, 4, 2).end(10, "failed")
			m.try(12, a2, 1, 6, 1).end(13, "succeeded")
		}},
		{"more attempts than claims", check.FencesRise, func(m *maker) {
			m.row(1, web, "succeeded", 2, 1)
			m.try(1, a1, 1, 1, 2).end(2, "succeeded")
		}},
	})
}
