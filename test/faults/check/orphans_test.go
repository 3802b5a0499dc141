package check_test

import (
	"testing"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

func TestOrphansWait(t *testing.T) {
	t.Parallel()
	const under = "undeclared.web"
	// orphan makes a row that was inserted under the undeclared type, with the claim of one attempt under that type; "": it never ran.
	orphan := func(m *maker, state, claimedAs, typ string) {
		fence, attempt := int64(2), 1
		if claimedAs == "" {
			fence, attempt = 1, 0
		}
		m.row(1, web, state, fence, attempt, func(e *enq, r *row) { e.Under, r.Type = under, typ })
		if claimedAs != "" {
			m.Moves = append(m.Moves, history.Move{Serial: 5, ID: 1, State: "running", Fence: 1, Attempt: 1, Type: claimedAs})
			m.try(1, a1, 1, 1, 1).end(2, "succeeded")
		}
	}
	asked := func(m *maker, verb, into string) {
		m.OrphanOps = append(m.OrphanOps, history.OrphanOp{Requested: s(0.5), Verb: verb, Type: under, Into: into})
	}
	moved := func(m *maker, from, to string) {
		m.TypeMoves = append(m.TypeMoves, history.TypeMove{Serial: int64(2 + len(m.TypeMoves)), ID: 1, From: from, To: to})
	}
	perform(t, []scene{
		{"it is moved, and runs", "", func(m *maker) {
			asked(m, "move", web)
			moved(m, under, web)
			orphan(m, "succeeded", web, web)
		}},
		{"it is cancelled, and never runs", "", func(m *maker) {
			asked(m, "cancel", "")
			orphan(m, "cancelled", "", under)
		}},
		{"it is cancelled, and no operator asked", check.CancelledStays, func(m *maker) {
			asked(m, "move", web)
			orphan(m, "cancelled", "", under)
		}},
		{"it is moved, and cancelled after that as what it was", check.CancelledStays, func(m *maker) {
			asked(m, "move", web)
			asked(m, "cancel", "")
			moved(m, under, web)
			orphan(m, "cancelled", "", web)
		}},
		{"it runs before it is moved", check.OrphansWait, func(m *maker) {
			asked(m, "move", web)
			moved(m, under, web)
			orphan(m, "succeeded", under, web)
		}},
		{"it runs, and is cancelled", check.OrphansWait, func(m *maker) {
			asked(m, "cancel", "")
			orphan(m, "succeeded", web, under)
		}},
		{"it runs as another type", check.OrphansWait, func(m *maker) {
			asked(m, "move", plain)
			moved(m, under, plain)
			orphan(m, "succeeded", plain, plain)
		}},
		{"it is moved twice", check.OrphansWait, func(m *maker) {
			asked(m, "move", web)
			moved(m, under, web)
			moved(m, under, web)
			orphan(m, "succeeded", web, web)
		}},
		{"it is moved, and no operator asked", check.OrphansWait, func(m *maker) {
			moved(m, under, web)
			orphan(m, "succeeded", web, web)
		}},
		{"another row is moved", check.OrphansWait, func(m *maker) {
			m.row(1, web, "succeeded", 2, 1)
			m.try(1, a1, 1, 1, 1).end(2, "succeeded")
			moved(m, web, web)
		}},
	})
}
