package check_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// groups makes batches: one that goes its way, one that is rolled back, and one that is cancelled before it has begun.
func (g *sim) groups() {
	const yes, no = task.Succeeded, task.Failed
	first := g.group(1, script{kind: web, who: steady, ends: []task.Verdict{no, yes}}, script{kind: plain, who: steady, ends: []task.Verdict{task.Rejected}})
	g.runAll(first)
	g.endGroup(1, first, 0, "")

	second := g.group(2, script{kind: book, who: steady, guarded: true, rollBack: []task.Verdict{yes}},
		script{kind: built, who: steady, rollBack: []task.Verdict{no, yes}}, script{kind: paid, who: steady, guarded: true})
	g.runAll(second)
	g.stop(2, second, "rollback")
	for _, l := range second {
		l.operate("rollback")
	}
	g.endGroup(2, second, 0, "rollback")

	third := g.group(3, script{kind: web}, script{kind: built})
	g.stop(3, third, "cancel")
	for _, l := range third {
		l.callOff()
	}
	g.endGroup(3, third, 0, "cancel")
	for _, l := range third {
		l.operate("retry")
	}
	g.endGroup(3, third, 1, "")
	for _, all := range [][]*life{first, second, third} {
		for _, l := range all {
			l.over()
		}
	}
}

// group begins rows of a batch.
func (g *sim) group(id int64, some ...script) (all []*life) {
	name := string(rune('a' + id))
	g.Of.Made = append(g.Of.Made, history.MadeBatch{Name: name, ID: id, Commit: history.Committed, At: s(20)})
	g.Of.Moves = append(g.Of.Moves, history.BatchMove{Serial: g.serial(), ID: id, Sealed: true})
	for _, sc := range some {
		for range rapid.IntRange(1, 3).Draw(g.t, "rows") {
			sc.batch, sc.from = id, g.between(s(20), s(35))
			all = append(all, g.begin(sc))
		}
	}
	return all
}

func (g *sim) runAll(all []*life) {
	for _, l := range all {
		l.proceed()
	}
}

// stop cancels a batch or rolls it back, and looks at it.
func (g *sim) stop(id int64, all []*life, request string) {
	var at time.Duration
	fences := map[int64]int64{}
	for _, l := range all {
		at = max(at, l.now)
		if l.row.State.Live() {
			fences[int64(l.row.ID)] = int64(l.row.Fence)
		}
	}
	g.Of.Moves = append(g.Of.Moves, history.BatchMove{Serial: g.serial(), ID: id, Sealed: true, Stopping: true, Requested: request})
	g.Ops = append(g.Ops, history.Op{Requested: at, At: at + s(0.01), Verb: request, Batch: id, Answer: "cancelling"})
	g.look(id, all, at+s(0.02), true)
	g.Of.Samples[len(g.Of.Samples)-1].Fences = fences
	for _, l := range all { // nothing that becomes of a row because of it comes before it
		l.now = max(l.now, at+s(0.03))
	}
}

// look looks at a batch.
func (g *sim) look(id int64, all []*life, at time.Duration, stopping bool) {
	c := countsOf(all)
	g.Of.Samples = append(g.Of.Samples, history.BatchSample{At: at, Within: s(0.01), ID: id, Stopping: stopping, View: c, Rows: c})
}

func countsOf(all []*life) (c history.Counts) {
	for _, l := range all {
		c.Total++
		switch l.row.State {
		case task.StateSucceeded:
			c.Succeeded++
		case task.StateFailed:
			c.Failed++
		case task.StateCancelled:
			c.Cancelled++
		case task.StateRolledBack:
			c.RolledBack++
		case task.StateRollbackFailed:
			c.RollbackFailed++
		default:
			c.Live++
			c.Waiting++
		}
	}
	return c
}

// endGroup ends a round of a batch, and adds its finish task.
func (g *sim) endGroup(id int64, all []*life, round int, request string) {
	c, name := countsOf(all), string(rune('a'+id))
	var at time.Duration
	for _, l := range all {
		at = max(at, l.now)
	}
	g.look(id, all, at, request != "")
	state := stateOf(c, request)
	g.Of.Moves = append(g.Of.Moves, history.BatchMove{
		Serial: g.serial(), ID: id, Round: round, Sealed: true, Stopping: request != "", Ended: true, Requested: request,
	})
	report := g.begin(script{kind: finishes, from: at + s(0.1)})
	report.proceed()
	report.over()
	g.Enqueued = g.Enqueued[:len(g.Enqueued)-1]
	g.Rows[len(g.Rows)-1].Key = ""
	g.Of.Finishes = append(g.Of.Finishes, history.Finish{ID: int64(report.row.ID), Batch: id, Name: name, State: state, Round: round, Counts: c})
	b := history.Batch{ID: id, Name: name, State: state, Sealed: true, Ended: true, Round: round, FinishType: finishes, Counts: c}
	if round > 0 {
		g.Of.Ended = g.Of.Ended[:len(g.Of.Ended)-1]
	}
	g.Of.Ended = append(g.Of.Ended, b)
}

func stateOf(c history.Counts, request string) string {
	switch {
	case c.RollbackFailed > 0:
		return "rollback_failed"
	case request == "rollback":
		return "rolled_back"
	case c.Cancelled > 0:
		return "cancelled"
	case c.Failed > 0:
		return "partially_failed"
	}
	return "succeeded"
}
