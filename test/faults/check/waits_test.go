package check_test

import (
	"fmt"
	"testing"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

// waits makes a row that runs, ends as state, and another one that waits for it and runs when it was claimed so.
func waits(m *maker, state string, afterAny bool) {
	m.row(1, plain, state, 2, 1)
	m.settled(1, 1, 1, state)
	m.row(2, plain, "succeeded", 2, 1, func(e *history.Enqueued, _ *history.Row) { e.After, e.AfterAny = []int64{1}, afterAny })
	m.settled(2, 1, 1, "succeeded")
	m.try(1, a1, 1, 1, 1).end(2, state)
	m.try(3, a1, 2, 1, 1).end(4, "succeeded")
	m.path(1, 0, "pending 0 0")
	m.path(2, 0, "pending 0 0")
	m.path(1, 0, "running 1 1")
}

// takenBack makes a row of a batch that succeeds and is rolled back, and then one that waited for it is claimed. That one was inserted before
// the first began, or after all of that.
func takenBack(m *maker, before bool) {
	m.row(1, built, "rolled_back", 5, 1, in(7))
	m.row(2, plain, "succeeded", 2, 1, func(e *history.Enqueued, _ *history.Row) { e.After = []int64{1} })
	m.path(1, 0, "pending 0 0")
	if before {
		m.path(2, 0, "pending 0 0")
	}
	m.path(1, 0, "running 1 1", "succeeded 2 1", "rollback_pending 3 0", "rollback_running 4 1", "rolled_back 5 1")
	if !before {
		m.path(2, 0, "pending 0 0")
	}
	m.path(2, 0, "running 1 1", "succeeded 2 1")
	m.try(1, a1, 1, 1, 1).end(2, "succeeded")
	m.settled(1, 1, 1, "succeeded")
	m.rollBack(4, a2, 1, 4, 1).end(5, "succeeded")
	m.batch(7, "rolled_back", "rollback", history.Counts{Total: 1, RolledBack: 1})
	m.try(6, a1, 2, 1, 1).end(7, "succeeded")
}

// forOne makes a row that was cancelled for another.
func forOne(m *maker, state, reason string, afterAny bool) {
	m.row(1, plain, state, 2, 1)
	m.settled(1, 1, 1, state)
	m.try(1, a1, 1, 1, 1).end(2, state)
	m.row(2, plain, "cancelled", 1, 0, func(e *history.Enqueued, r *history.Row) {
		e.After, e.AfterAny, r.Error = []int64{1}, afterAny, reason
	})
}

// revived makes a chain of three whose last one was cancelled for the second, revived, and cancelled once more.
func revived(m *maker) {
	m.row(1, plain, "failed", 2, 1)
	m.settled(1, 1, 1, "failed")
	m.try(1, a1, 1, 1, 1).end(2, "failed")
	for id := int64(2); id <= 3; id++ {
		m.row(id, plain, "cancelled", 3, 0, func(e *history.Enqueued, r *history.Row) {
			e.After, r.Error, r.Round = []int64{id - 1}, fmt.Sprintf("task %d was cancelled", id-1), 1
			e.Expects.States = nil
		})
	}
	m.path(3, 0, "pending 0 0", "cancelled 1 0")
	m.path(3, 1, "pending 2 0", "cancelled 3 0")
}

func TestWaits(t *testing.T) {
	perform(t, []scene{
		{"it starts when the other has succeeded", "", func(m *maker) {
			waits(m, "succeeded", false)
			m.path(1, 0, "succeeded 2 1")
			m.path(2, 0, "running 1 1", "succeeded 2 1")
		}},
		{"it starts before", check.StartsAfterAll, func(m *maker) {
			waits(m, "succeeded", false)
			m.path(2, 0, "running 1 1", "succeeded 2 1")
			m.path(1, 0, "succeeded 2 1")
		}},
		{"the other has failed", check.StartsAfterAll, func(m *maker) {
			waits(m, "failed", false)
			m.path(1, 0, "failed 2 1")
			m.path(2, 0, "running 1 1", "succeeded 2 1")
		}},
		{"and it may", "", func(m *maker) {
			waits(m, "failed", true)
			m.path(1, 0, "failed 2 1")
			m.path(2, 0, "running 1 1", "succeeded 2 1")
		}},
		{"the other is rolled back with its batch before the row is claimed", "", func(m *maker) { takenBack(m, true) }},
		{"and before the row was there", check.StartsAfterAll, func(m *maker) { takenBack(m, false) }},
		{"it is cancelled for the other", "", func(m *maker) { forOne(m, "failed", "task 1 failed", false) }},
		{"for another", check.CancelledForOne, func(m *maker) { forOne(m, "failed", "task 7 failed", false) }},
		{"for one that has succeeded", check.CancelledForOne, func(m *maker) { forOne(m, "succeeded", "task 1 failed", false) }},
		{"and should run in any case", check.CancelledForOne, func(m *maker) { forOne(m, "failed", "task 1 failed", true) }},
		{"it is revived with one for which it waits through another", "", func(m *maker) { revived(m); m.request(2.5, "retry", 1) }},
		{"it is revived, and none of those was retried", check.FreshBudget, revived},
		{"without a reason", check.CancelledStays, func(m *maker) { forOne(m, "failed", "cancelled before it started", false) }},
	})
}
