package check_test

import (
	"testing"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

// batch adds a batch with that id that has ended as state, in its first round, with those counts and a finish task. Its
// rows' moves have to be there.
func (m *maker) batch(id int64, state string, request string, c history.Counts) {
	m.Of.Made = append(m.Of.Made, history.MadeBatch{Name: "b", ID: id, Commit: history.Committed, At: s(0.1)})
	b := history.Batch{ID: id, Name: "b", State: state, Sealed: true, Ended: true, FinishType: finishes, Counts: c}
	m.Of.Ended = append(m.Of.Ended, b)
	m.endBatch(id, state, 0, request, c)
}

// endBatch adds the end of a batch's round, and its finish task.
func (m *maker) endBatch(id int64, state string, round int, request string, c history.Counts) {
	m.Of.Moves = append(m.Of.Moves, history.BatchMove{
		Serial: m.serial(), ID: id, Round: round, Sealed: true, Ended: true, Requested: request, Stopping: request != "",
	})
	row := int64(100 + len(m.Of.Finishes))
	m.row(row, finishes, "succeeded", 2, 1)
	m.Enqueued = m.Enqueued[:len(m.Enqueued)-1]
	m.Rows[len(m.Rows)-1].Key = ""
	m.try(20, a1, row, 1, 1).end(21, "succeeded")
	m.Of.Finishes = append(m.Of.Finishes, history.Finish{ID: row, Batch: id, Name: "b", State: state, Round: round, Counts: c})
}

// in puts a row into a batch.
func in(batch int64) func(*enq, *row) {
	return func(e *enq, r *row) { e.Batch, r.Batch = "b", batch }
}

// pair is a batch of two rows, the first of which succeeded and the second failed.
func pair(m *maker) {
	m.row(1, web, "succeeded", 2, 1, in(7))
	m.row(2, web, "failed", 2, 1, in(7), func(_ *enq, r *row) { r.Outcome = "rejected" })
	m.path(1, 0, "pending 0 0", "running 1 1", "succeeded 2 1")
	m.path(2, 0, "pending 0 0", "running 1 1", "failed 2 1")
	m.try(1, a1, 1, 1, 1).end(2, "succeeded")
	m.try(1, a2, 2, 1, 1).end(2, "rejected")
	m.batch(7, "partially_failed", "", history.Counts{Total: 2, Succeeded: 1, Failed: 1})
}

func TestBatchEnds(t *testing.T) {
	perform(t, []scene{
		{"it has ended", "", pair},
		{"of no rows", "", func(m *maker) { m.batch(7, "succeeded", "", history.Counts{}) }},
		{"open, and not ended", "", func(m *maker) {
			pair(m)
			b := &m.Of.Ended[0]
			b.Sealed, b.Ended, b.State = false, false, "running"
			m.Of.Finishes, m.Of.Moves = nil, nil
		}},
		{"relaxed, and lost in a crash", "", func(m *maker) {
			m.Of.Made = append(m.Of.Made, history.MadeBatch{Name: "x", Commit: history.Async, At: s(1)})
			m.Crashes = append(m.Crashes, s(2))
		}},
		{"in two rounds", "", func(m *maker) {
			pair(m)
			m.Of.Ended[0].Round, m.Of.Ended[0].State = 1, "succeeded"
			c := history.Counts{Total: 2, Succeeded: 2}
			m.Of.Ended[0].Counts = c
			m.request(3, "retry", 2)
			m.Rows[1].State, m.Rows[1].Outcome, m.Rows[1].Fence, m.Rows[1].Round = "succeeded", "succeeded", 5, 1
			m.settled(2, 1, 1, "rejected")
			m.path(2, 1, "pending 3 0", "running 4 1", "succeeded 5 1")
			m.try(4, a2, 2, 4, 1).end(5, "succeeded")
			m.endBatch(7, "succeeded", 1, "", c)
		}},
		{"committed, and gone", check.BatchEnds, func(m *maker) {
			m.Of.Made = append(m.Of.Made, history.MadeBatch{Name: "x", Commit: history.Committed, At: s(1)})
		}},
		{"rolled back, and there", check.BatchEnds, func(m *maker) {
			pair(m)
			m.Of.Made[0].Commit = history.RolledBack
		}},
		{"its rows have ended, and it has not", check.BatchEnds, func(m *maker) {
			pair(m)
			m.Of.Ended[0].Ended, m.Of.Ended[0].State, m.Of.Finishes, m.Of.Moves = false, "running", nil, nil
		}},
		{"before it was sealed", check.BatchEnds, func(m *maker) {
			pair(m)
			m.Of.Ended[0].Sealed = false
		}},
		{"as something else than it is", check.BatchEnds, func(m *maker) {
			pair(m)
			m.Of.Ended[0].State = "succeeded"
		}},
		{"with other counts", check.BatchEnds, func(m *maker) {
			pair(m)
			m.Of.Ended[0].Counts.Failed = 2
		}},
		{"two finish tasks", check.BatchEnds, func(m *maker) {
			pair(m)
			m.Of.Finishes = append(m.Of.Finishes, m.Of.Finishes[0])
		}},
		{"no finish task", check.BatchEnds, func(m *maker) {
			pair(m)
			m.Of.Finishes = nil
		}},
		{"a finish task before the end", check.BatchEnds, func(m *maker) {
			pair(m)
			m.Of.Moves[0].Serial = 5
		}},
		{"a finish task with other counts", check.BatchEnds, func(m *maker) {
			pair(m)
			m.Of.Finishes[0].Counts.Succeeded = 2
		}},
		{"an operation is left", check.BatchEnds, func(m *maker) {
			pair(m)
			m.Of.Ended[0].Operation = "retry"
		}},
		{"no finish task of the first round", check.BatchEnds, func(m *maker) {
			pair(m)
			m.Of.Ended[0].Round = 1
			m.Of.Moves[0].Round, m.Of.Finishes[0].Round = 1, 1
		}},
	})
}

func TestCancelHolds(t *testing.T) {
	// seen is a row of a batch that was seen to be cancelled, while the row had that fence.
	seen := func(m *maker, fence int64) {
		m.row(1, web, "failed", 4, 1, in(7), func(_ *enq, r *row) { r.Outcome = "rejected" })
		m.try(1, a1, 1, 1, 1).report(1.5, history.Gone)
		m.settled(1, 1, 1, "undelivered")
		m.path(1, 0, "pending 0 0", "running 1 1", "pending 2 0", "running 3 1", "failed 4 1")
		m.try(3, a1, 1, 3, 1).end(4, "rejected")
		c := history.Counts{Total: 1, Failed: 1}
		m.batch(7, "failed", "cancel", c)
		m.Of.Samples = append(m.Of.Samples, history.BatchSample{
			At: s(3), ID: 7, Stopping: true, State: "running", Fences: map[int64]int64{1: fence},
		})
	}
	perform(t, []scene{
		{"it ran then", "", func(m *maker) { seen(m, 3) }},
		{"it waited, and was claimed", check.CancelHolds, func(m *maker) { seen(m, 2) }},
		{"it had never been claimed", check.CancelHolds, func(m *maker) { seen(m, 0) }},
		{"what was seen may have been lost", "", func(m *maker) {
			seen(m, 2)
			m.Crashes = append(m.Crashes, s(3.1))
		}},
		{"it was retried after that", "", func(m *maker) {
			m.row(1, web, "succeeded", 6, 1, in(7), inRound(1))
			m.path(1, 0, "pending 0 0", "running 1 1", "failed 2 1")
			m.batch(7, "failed", "cancel", history.Counts{Total: 1, Failed: 1})
			m.path(1, 1, "pending 3 0", "running 4 1", "succeeded 5 1")
			m.endBatch(7, "succeeded", 1, "", history.Counts{Total: 1, Succeeded: 1})
			m.Rows[0].Fence = 5
			b := &m.Of.Ended[0]
			b.Round, b.State, b.Counts = 1, "succeeded", history.Counts{Total: 1, Succeeded: 1}
			m.request(3, "retry", 1)
			m.try(1, a1, 1, 1, 1).end(2, "rejected")
			m.settled(1, 1, 1, "rejected")
			m.Moves[2].Outcome = "rejected"
			m.try(4, a1, 1, 4, 1).end(5, "succeeded")
			m.Of.Samples = append(m.Of.Samples, history.BatchSample{
				At: s(2), ID: 7, Stopping: true, State: "running", Fences: map[int64]int64{1: 1},
			})
		}},
		{"a reaper took it", "", func(m *maker) {
			m.row(1, web, "failed", 3, 1, in(7), func(_ *enq, r *row) { r.Outcome = "lost" })
			m.try(1, a1, 1, 1, 1).report(1.5, history.Gone)
			m.path(1, 0, "pending 0 0", "running 1 1", "running 2 1", "failed 3 1")
			m.settled(1, 1, 1, "lost")
			m.batch(7, "failed", "cancel", history.Counts{Total: 1, Failed: 1})
			m.Of.Samples = append(m.Of.Samples, history.BatchSample{
				At: s(3), ID: 7, Stopping: true, State: "running", Fences: map[int64]int64{1: 1},
			})
		}},
	})
}

func TestCancelHoldsForWhatWasClaimedAhead(t *testing.T) {
	// starts has the one row of each of n batches start so long after its batch was cancelled.
	starts := func(m *maker, n int, late float64, more ...func(at float64)) {
		for i := range n {
			batch, at := int64(7+i), 10*float64(i)
			id := int64(1 + i)
			m.row(id, plain, "succeeded", 2, 1, in(batch))
			m.path(id, 0, "pending 0 0", "running 1 1", "succeeded 2 1")
			m.try(at+1+late, a1, id, 1, 1).end(at+2+late, "succeeded")
			m.Ops = append(m.Ops, history.Op{Verb: "cancel", Batch: batch, Requested: s(at + 0.9), At: s(at + 1), Answer: "cancelling"})
			m.batch(batch, "succeeded", "cancel", history.Counts{Total: 1, Succeeded: 1})
			for _, f := range more {
				f(at)
			}
		}
	}
	perform(t, []scene{
		{"before its agent knows", "", func(m *maker) { starts(m, 4, 0.2) }},
		{"late, on a machine that was busy for once", "", func(m *maker) { starts(m, 2, 0.3) }},
		{"late each time", check.CancelHolds, func(m *maker) { starts(m, 3, 0.3) }},
		{"later than any machine takes", check.CancelHolds, func(m *maker) { starts(m, 1, 0.6) }},
		{"its agent gets no notifications", "", func(m *maker) {
			starts(m, 3, 0.9)
			m.Deaf = []string{"a1"}
		}},
		{"its agent gets none, and it was too late all the same", check.CancelHolds, func(m *maker) {
			starts(m, 1, 1.7)
			m.Deaf = []string{"a1"}
		}},
		{"the way to the store was broken", "", func(m *maker) {
			starts(m, 3, 0.6, func(at float64) { m.broken(at+0.5, at+1.2, "network is cut") })
		}},
		{"it was retried", "", func(m *maker) {
			starts(m, 1, 0.6)
			m.Ops = append(m.Ops, history.Op{Verb: "retry", Batch: 7, Requested: s(1.2), At: s(1.3), Answer: "retrying"})
		}},
	})
}

func TestCountersEqualRows(t *testing.T) {
	look := func(m *maker, view history.Counts) {
		m.Of.Samples = append(m.Of.Samples, history.BatchSample{
			At: s(2), ID: 7, State: "running", View: view, Rows: history.Counts{Total: 2, Live: 1, Running: 1, Failed: 1},
		})
	}
	perform(t, []scene{
		{"they do", "", func(m *maker) { look(m, history.Counts{Total: 2, Live: 1, Running: 1, Failed: 1}) }},
		{"one is not counted", check.CountersEqualRows, func(m *maker) { look(m, history.Counts{Total: 2, Live: 2, Running: 1, Waiting: 1}) }},
	})
}

func TestBatchRollbackComplete(t *testing.T) {
	// rolledBack is a batch of two rows, the first of which was rolled back and the second is as said.
	rolledBack := func(m *maker, state string, path ...string) {
		m.row(1, built, "rolled_back", 5, 1, in(7))
		m.row(2, built, state, int64(len(path))-1, 1, in(7), func(e *enq, _ *row) { e.Expects.CancelRequested = true })
		m.path(1, 0, "pending 0 0", "running 1 1", "succeeded 2 1", "rollback_pending 3 0", "rollback_running 4 1", "rolled_back 5 1")
		m.path(2, 0, path...)
		m.try(1, a1, 1, 1, 1).end(2, "succeeded")
		m.settled(1, 1, 1, "succeeded")
		m.rollBack(4, a2, 1, 4, 1).end(5, "succeeded")
		c := history.Counts{Total: 2, RolledBack: 1}
		switch state {
		case "cancelled":
			c.Cancelled++
		case "succeeded":
			c.Succeeded++
		}
		m.batch(7, "rolled_back", "rollback", c)
	}
	perform(t, []scene{
		{"one never started", "", func(m *maker) {
			rolledBack(m, "cancelled", "pending 0 0", "cancelled 1 0")
			m.Rows[1].Attempt = 0
		}},
		{"one is left", check.BatchRollbackComplete, func(m *maker) {
			rolledBack(m, "succeeded", "pending 0 0", "running 1 1", "succeeded 2 1")
			m.try(1, a1, 2, 1, 1).end(2, "succeeded")
		}},
	})
}
