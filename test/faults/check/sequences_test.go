package check_test

import (
	"testing"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

// inSequence makes two rows of one sequence.
func inSequence(m *maker, kind string) {
	twice(m, kind)
	m.Enqueued[0].Sequence = "x"
	m.row(2, kind, "succeeded", 2, 1, func(e *history.Enqueued, _ *history.Row) { e.Sequence = "x" })
	m.settled(2, 1, 1, "succeeded")
}

func TestSequences(t *testing.T) {
	perform(t, []scene{
		{"one after the other", "", func(m *maker) {
			inSequence(m, plain)
			m.try(1, a1, 1, 1, 1).end(2, "failed")
			m.try(3, a2, 1, 4, 2).end(4, "succeeded")
			m.try(4.1, a1, 2, 1, 1).end(5, "succeeded")
		}},
		{"another sequence", "", func(m *maker) {
			inSequence(m, plain)
			m.Enqueued[1].Sequence = "y"
			m.try(1, a1, 1, 1, 1).end(2, "failed")
			m.try(2.5, a1, 2, 1, 1).end(5, "succeeded")
			m.try(3, a2, 1, 4, 2).end(4, "succeeded")
		}},
		{"between two attempts of another row", check.SequenceInTurn, func(m *maker) {
			inSequence(m, plain)
			m.try(1, a1, 1, 1, 1).end(2, "failed")
			m.try(2.5, a1, 2, 1, 1).end(2.9, "succeeded")
			m.try(3, a2, 1, 4, 2).end(4, "succeeded")
		}},
		{"two requests are open", check.OneOfASequenceAtATime, func(m *maker) {
			inSequence(m, plain)
			m.try(1, a1, 1, 1, 1).end(2, "failed")
			m.try(3, a2, 1, 4, 2).end(5, "succeeded")
			m.try(4, a1, 2, 1, 1).end(6, "succeeded")
		}},
	})
}
