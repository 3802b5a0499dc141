package check_test

import (
	"testing"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

type (
	enq = history.Enqueued
	row = history.Row
)

func TestCommittedEnds(t *testing.T) {
	perform(t, []scene{
		{"an empty run", "", func(m *maker) {}},
		{"a row that ended", "", func(m *maker) { m.once(1, a1, 1, web) }},
		{"found by its key, as the reply was lost", "", func(m *maker) {
			m.row(1, web, "succeeded", 2, 1, func(e *enq, r *row) { e.ID, e.Commit = 0, history.Unknown })
			m.try(1, a1, 1, 1, 1).end(2, "succeeded")
		}},
		{"relaxed, lost in a crash, and its id is another's now", "", func(m *maker) {
			m.once(3, a1, 7, web)
			m.Enqueued = append(m.Enqueued, enq{Key: "x", ID: 7, Commit: history.Async, At: s(1), Expects: history.Expects{States: []string{"failed"}}})
			m.Crashes = append(m.Crashes, s(2))
		}},
		{"nothing came of a lost reply", "", func(m *maker) {
			m.Enqueued = append(m.Enqueued, enq{Key: "x", Commit: history.Unknown})
		}},
		{"relaxed, and lost in a crash", "", func(m *maker) {
			m.Enqueued = append(m.Enqueued, enq{Key: "x", ID: 7, Commit: history.Async, At: s(1)})
			m.Crashes = append(m.Crashes, s(2))
		}},
		{"one of the states that it may end in", "", func(m *maker) {
			m.row(1, web, "failed", 2, 1, func(e *enq, r *row) {
				e.Expects.States, r.Outcome = []string{"succeeded", "failed"}, "rejected"
			})
			m.try(1, a1, 1, 1, 1).end(2, "rejected")
		}},
		{"relaxed, and lost without a crash", check.CommittedEnds, func(m *maker) {
			m.Enqueued = append(m.Enqueued, enq{Key: "x", ID: 7, Commit: history.Async, At: s(3)})
			m.Crashes = append(m.Crashes, s(2))
		}},
		{"committed, and gone", check.CommittedEnds, func(m *maker) {
			m.Enqueued = append(m.Enqueued, enq{Key: "x", ID: 7, Commit: history.Committed})
		}},
		{"still running", check.CommittedEnds, func(m *maker) {
			m.row(1, web, "running", 1, 1, func(e *enq, r *row) { r.Live, r.Archived = true, 0 })
			m.try(1, a1, 1, 1, 1)
		}},
		{"in both tables", check.CommittedEnds, func(m *maker) {
			m.row(1, web, "cancelled", 1, 0, func(e *enq, r *row) { r.Live, e.Expects.CancelRequested = true, true })
		}},
		{"twice in the archive", check.CommittedEnds, func(m *maker) {
			m.row(1, web, "succeeded", 2, 1, func(e *enq, r *row) { r.Archived = 2 })
			m.try(1, a1, 1, 1, 1).end(2, "succeeded")
		}},
		{"two rows with its id", check.CommittedEnds, func(m *maker) {
			m.once(1, a1, 1, web)
			m.Rows = append(m.Rows, m.Rows[0])
		}},
		{"in a state that stays nowhere", check.CommittedEnds, func(m *maker) { m.row(1, web, "pending", 0, 0) }},
		{"in a state that it cannot end in", check.CommittedEnds, func(m *maker) {
			m.row(1, web, "succeeded", 2, 1, func(e *enq, r *row) { e.Expects.States = []string{"failed"} })
			m.try(1, a1, 1, 1, 1).end(2, "succeeded")
		}},
		{"unknown, there, and not ended", check.CommittedEnds, func(m *maker) {
			m.row(1, web, "pending", 0, 0, func(e *enq, r *row) { e.Commit, r.Live, r.Archived = history.Unknown, true, 0 })
		}},
		{"it was never enqueued", check.CommittedEnds, func(m *maker) {
			m.once(1, a1, 1, web)
			m.Enqueued = nil
		}},
	})
}

func TestRolledBackNeverRuns(t *testing.T) {
	back := func(m *maker, key string, id int64) {
		m.Enqueued = append(m.Enqueued, enq{Key: key, ID: id, Kind: web, Commit: history.RolledBack, At: s(1)})
	}
	perform(t, []scene{
		{"nothing is there", "", func(m *maker) { back(m, "x", 5) }},
		{"the key was enqueued again", "", func(m *maker) {
			back(m, "k1", 0)
			m.once(2, a1, 1, web)
		}},
		{"the id was handed out again after a crash", "", func(m *maker) {
			back(m, "x", 1)
			m.Crashes = append(m.Crashes, s(1.5))
			m.once(2, a1, 1, web)
		}},
		{"it is there", check.RolledBackNeverRuns, func(m *maker) {
			m.once(2, a1, 1, web)
			m.Enqueued = nil
			back(m, "k1", 0)
		}},
		{"it ran", check.RolledBackNeverRuns, func(m *maker) {
			back(m, "x", 5)
			m.try(1, a1, 5, 1, 1)
		}},
		{"its effect is there", check.RolledBackNeverRuns, func(m *maker) {
			back(m, "x", 5)
			m.effect(5, 1)
		}},
	})
}
