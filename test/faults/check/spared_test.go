package check_test

import (
	"testing"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

func TestOneFailureChargesNoOther(t *testing.T) {
	// spared is a first attempt in a request that ended badly, and settled as how, and a second one that ends well.
	spared := func(m *maker, how string, second int) {
		m.row(1, web, "succeeded", 4, second)
		m.try(1, a1, 1, 1, 1).report(1.5, history.Spared)
		m.settled(1, 1, 1, how)
		m.try(9, a2, 1, 3, second).end(10, "succeeded")
		m.settled(1, 3, second, "succeeded")
	}
	perform(t, []scene{
		{"released", "", func(m *maker) { spared(m, "undelivered", 1) }},
		{"it had stalled before", "", func(m *maker) { spared(m, "stalled", 2) }},
		{"charged", check.OneFailureChargesNoOther, func(m *maker) { spared(m, "failed", 2) }},
		{"charged at its last attempt", check.OneFailureChargesNoOther, func(m *maker) {
			m.row(1, web, "failed", 2, 1, func(e *enq, _ *row) { e.Expects.Limit = 1 })
			m.try(1, a1, 1, 1, 1).report(1.5, history.Spared)
		}},
	})
}

func TestManyInOneRequest(t *testing.T) {
	// open is an attempt that stalled and whose request stays, for others, while the next one comes.
	open := func(m *maker, how string) {
		m.row(1, web, "succeeded", 4, 2)
		m.try(1, a1, 1, 1, 1).report(14, history.Gone)
		m.settled(1, 1, 1, how)
		m.try(9, a2, 1, 3, 2).end(10, "succeeded")
		m.settled(1, 3, 2, "succeeded")
	}
	many := func(m *maker) {
		k := m.Kinds[web]
		k.Many = true
		m.Kinds[web] = k
	}
	perform(t, []scene{
		{"its connection stays", "", func(m *maker) {
			many(m)
			open(m, "stalled")
		}},
		{"it answers, much too late, and that counts", check.HungIsCaught, func(m *maker) {
			many(m)
			m.row(1, web, "succeeded", 2, 1)
			m.try(1, a1, 1, 1, 1).end(14, "succeeded")
		}},
		{"nothing has stopped it", check.HungIsCaught, func(m *maker) {
			many(m)
			open(m, "lost")
		}},
	})
}
