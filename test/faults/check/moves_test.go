package check_test

import (
	"fmt"
	"strings"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// path adds the moves of a row in one round: each its state, fence, and attempts that count. It has been everStarted from its
// first claim on.
func (m *maker) path(id int64, round int, steps ...string) {
	everStarted := false
	for i := range m.Moves {
		everStarted = everStarted || m.Moves[i].ID == id && m.Moves[i].EverStarted
	}
	for _, step := range steps {
		move := history.Move{Serial: m.serial(), ID: id, Round: round}
		if _, err := fmt.Sscan(step, &move.State, &move.Fence, &move.Attempt); err != nil {
			panic(err)
		}
		everStarted = everStarted || move.State == "running"
		move.EverStarted, move.Archived = everStarted, task.State(move.State).Finished()
		if move.Archived {
			move.Outcome = strings.TrimSuffix(move.State, "_back")
		}
		m.Moves = append(m.Moves, move)
	}
}

// serial is the next one.
func (m *maker) serial() int64 { return int64(len(m.Moves)+len(m.Of.Moves)) + 1 }

// rollBack adds the start of an attempt to roll back.
func (m *maker) rollBack(at float64, who string, id, fence int64, number int) on {
	return m.tryPhase(at, who, id, fence, number, "rollback")
}

// check adds the start of a check.
func (m *maker) check(at float64, who string, id, fence int64, number int) on {
	return m.tryPhase(at, who, id, fence, number, "check")
}

func (m *maker) tryPhase(at float64, who string, id, fence int64, number int, phase string) on {
	a := on{m: m, who: who, id: id, fence: fence, number: number, phase: phase}
	for _, r := range m.Rows {
		if r.ID == id {
			a.kind = r.Type
		}
	}
	return a.report(at, history.Start)
}

// rolledBack adds an effect that rolls back another; 0: none.
func (m *maker) rolledBack(id, fence, other int64) {
	m.Effects = append(m.Effects, history.EffectRow{
		Serial: int64(len(m.Effects) + 1), ID: id, Fence: fence, Phase: "rollback", RollsBack: other,
	})
}

// request adds what an operator asked for of a row.
func (m *maker) request(at float64, verb string, id int64) {
	m.Ops = append(m.Ops, history.Op{Requested: s(at), At: s(at + 0.01), Verb: verb, ID: id})
}

// guarded makes a row's effects be.
func guarded(e *enq, _ *row) { e.Expects.Guarded = true }

// inRound puts a row into a round.
func inRound(n int) func(*enq, *row) { return func(_ *enq, r *row) { r.Round = n } }
