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
		{"another row, whose batch is retried then", "", func(m *maker) {
			inSequence(m, plain)
			in(7)(&m.Enqueued[0], &m.Rows[0])
			m.Of.Made = append(m.Of.Made, history.MadeBatch{Name: "b", ID: 7, Commit: history.Committed, At: s(0.1)})
			m.Of.Ended = append(m.Of.Ended, history.Batch{ID: 7, Name: "b", State: "running", Counts: history.Counts{Total: 1, Succeeded: 1}})
			m.try(1, a1, 1, 1, 1).end(2, "failed")
			m.try(2.5, a1, 2, 1, 1).end(2.9, "succeeded")
			m.Ops = append(m.Ops, history.Op{Verb: "retry", Batch: 7, Requested: s(2.8), At: s(2.9), Answer: "retrying"})
			m.try(3, a2, 1, 4, 2).end(4, "succeeded")
		}},
		{"two requests are open", check.OneOfASequenceAtATime, func(m *maker) {
			inSequence(m, plain)
			m.try(1, a1, 1, 1, 1).end(2, "failed")
			m.try(3, a2, 1, 4, 2).end(5, "succeeded")
			m.try(4, a1, 2, 1, 1).end(6, "succeeded")
		}},
		{"one that had committed is left out", check.SequenceInOrder, func(m *maker) {
			inOrder(m, 0.5)
		}},
		{"one that commits later comes later", "", func(m *maker) {
			inOrder(m, 1.5)
		}},
		{"behind a failure", check.FailureBlocks, func(m *maker) {
			behindFailure(m, chain)
		}},
		{"behind one that blocks nothing", "", func(m *maker) {
			behindFailure(m, plain)
		}},
		{"behind one that was skipped", "", func(m *maker) {
			behindFailure(m, chain)
			m.Ops = append(m.Ops, history.Op{Requested: s(2.5), At: s(2.6), Verb: "skip", ID: 1, Kind: chain, Sequence: "x", Answer: "1"})
		}},
		{"behind one that was skipped too late", check.FailureBlocks, func(m *maker) {
			behindFailure(m, chain)
			m.Ops = append(m.Ops, history.Op{Requested: s(3.5), At: s(3.6), Verb: "skip", ID: 1, Kind: chain, Sequence: "x", Answer: "1"})
		}},
		{"behind one for which another was skipped", check.FailureBlocks, func(m *maker) {
			behindFailure(m, chain)
			m.Ops = append(m.Ops, history.Op{Requested: s(2.5), At: s(2.6), Verb: "skip", ID: 3, Kind: chain, Sequence: "x", Answer: "3"})
		}},
	})
}

// inOrder makes three rows of one sequence, of which the last starts before the second, which has committed at that time.
func inOrder(m *maker, committed float64) {
	for id := range int64(3) {
		m.row(id+1, plain, "succeeded", 2, 1, func(e *history.Enqueued, _ *history.Row) { e.Sequence = "x" })
		m.settled(id+1, 1, 1, "succeeded")
	}
	m.Enqueued[1].CommittedAt = s(committed)
	for i, id := range []int64{1, 3, 2} {
		at := float64(1 + 2*i)
		m.try(at, a1, id, 1, 1).end(at+1, "succeeded")
	}
}

// behindFailure makes two rows of one sequence, of which the second starts after the first has failed.
func behindFailure(m *maker, kind string) {
	for id, state := range []string{"failed", "succeeded"} {
		m.row(int64(id)+1, kind, state, 2, 1, func(e *history.Enqueued, _ *history.Row) { e.Sequence = "x" })
		m.settled(int64(id)+1, 1, 1, state)
	}
	m.try(1, a1, 1, 1, 1).end(2, "failed")
	m.try(3, a1, 2, 1, 1).end(4, "succeeded")
}
