package check_test

import (
	"testing"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

// lockedPair makes two rows with one lock.
func lockedPair(m *maker, kind string) {
	for id := int64(1); id <= 2; id++ {
		m.row(id, kind, "succeeded", 2, 1, func(e *history.Enqueued, _ *history.Row) { e.Lock = "x" })
		m.settled(id, 1, 1, "succeeded")
	}
}

func TestOneOfALockAtATime(t *testing.T) {
	perform(t, []scene{
		{"one after the other", "", func(m *maker) {
			lockedPair(m, plain)
			m.try(1, a1, 1, 1, 1).end(2, "succeeded")
			m.try(2.1, a2, 2, 1, 1).end(3, "succeeded")
		}},
		{"different locks", "", func(m *maker) {
			lockedPair(m, plain)
			m.Enqueued[1].Lock = "y"
			m.try(1, a1, 1, 1, 1).end(3, "succeeded")
			m.try(2, a2, 2, 1, 1).end(4, "succeeded")
		}},
		{"an agent that stood still", "", func(m *maker) {
			twice(m, plain)
			m.Enqueued[0].Lock = "x"
			m.row(2, plain, "succeeded", 2, 1, func(e *history.Enqueued, _ *history.Row) { e.Lock = "x" })
			m.settled(2, 1, 1, "succeeded")
			m.try(1, a1, 1, 1, 1).report(13, history.Gone)
			m.agent(2, history.Frozen, a1)
			m.agent(12, history.Thawed, a1)
			m.try(11, a2, 2, 1, 1).end(14, "succeeded")
			m.try(20, a2, 1, 4, 2).end(21, "succeeded")
		}},
		{"two requests are open", check.OneOfALockAtATime, func(m *maker) {
			lockedPair(m, plain)
			m.try(1, a1, 1, 1, 1).end(3, "succeeded")
			m.try(2, a2, 2, 1, 1).end(4, "succeeded")
		}},
		{"two processes are alive", check.OneOfALockAtATime, func(m *maker) {
			lockedPair(m, queue)
			m.try(1, a1, 1, 1, 1).end(2.2, "succeeded")
			m.try(2, a2, 2, 1, 1).end(4, "succeeded")
		}},
	})
}
