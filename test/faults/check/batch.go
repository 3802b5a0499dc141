package check

import (
	"maps"
	"slices"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// group is all that is known of one batch.
type group struct {
	id       int64
	row      *history.Batch // as the store has it; nil: it has none
	moves    []*history.BatchMove
	finishes []*history.Finish
	rows     []*record
}

// batches are those of a history.
type batches struct {
	all     []*group // by id
	byName  map[string]*group
	ops     map[int64][]*history.Op
	stopped map[int64]bool // nothing of it was to start any more, at some time
}

func readBatches(x *index) batches {
	b := batches{byName: make(map[string]*group), ops: make(map[int64][]*history.Op), stopped: make(map[int64]bool)}
	byID := make(map[int64]*group)
	of := func(id int64) *group {
		if byID[id] == nil {
			byID[id] = &group{id: id}
		}
		return byID[id]
	}
	for i := range x.h.Of.Ended {
		row := &x.h.Of.Ended[i]
		of(row.ID).row, b.byName[row.Name] = row, of(row.ID)
	}
	for i := range x.h.Of.Moves {
		m := &x.h.Of.Moves[i]
		of(m.ID).moves = append(of(m.ID).moves, m)
		b.stopped[m.ID] = b.stopped[m.ID] || m.Stopping
	}
	for i := range x.h.Of.Finishes {
		f := &x.h.Of.Finishes[i]
		of(f.Batch).finishes = append(of(f.Batch).finishes, f)
	}
	for i := range x.h.Ops {
		if o := &x.h.Ops[i]; o.Batch != 0 {
			b.ops[o.Batch] = append(b.ops[o.Batch], o)
		}
	}
	for _, s := range x.records {
		if id := s.batch(); id != 0 {
			of(id).rows = append(of(id).rows, s)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		b.all = append(b.all, byID[id])
	}
	return b
}

// name is the batch, for people.
func (g *group) name() string {
	if g.row == nil {
		return ""
	}
	return g.row.Name
}

// ids are those of some of its rows, for the trace.
func (g *group) ids() (some []int64) {
	const most = 5
	for _, s := range g.rows[:min(len(g.rows), most)] {
		some = append(some, s.id)
	}
	return some
}

// add counts a row in a state. The halves of a chunk count in the place of the one that was split.
func add(c *history.Counts, state task.State) {
	if state == task.StateSplit {
		return
	}
	c.Total++
	switch state {
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
	case task.StateRollbackPending, task.StateRollbackRunning:
		c.Live++
		c.RollingBack++
	case task.StateRunning:
		c.Live++
		c.Running++
	default:
		c.Live++
		c.Waiting++
	}
}

// counted is what the rows add up to: as they are in the end, or as they were at a move.
func (g *group) counted(serial int64) (c history.Counts) {
	for _, s := range g.rows {
		if serial == 0 {
			add(&c, task.State(s.row.State))
		} else if m := s.moveAt(serial); m != nil {
			add(&c, task.State(m.State))
		}
	}
	return c
}

// ended is the state of a batch all of whose rows have.
func ended(c *history.Counts, request string, byFailure bool) string {
	switch {
	case c.RollbackFailed > 0:
		return "rollback_failed"
	case request == verbRollback:
		return "rolled_back"
	case request == verbCancel && !byFailure && c.Cancelled > 0:
		return "cancelled"
	case c.Total > 0 && c.RolledBack == c.Total:
		return "rolled_back"
	case c.Failed+c.RolledBack > 0 && c.Succeeded > 0:
		return "partially_failed"
	case c.Failed+c.RolledBack > 0:
		return "failed"
	case c.Cancelled > 0:
		return "cancelled"
	}
	return "succeeded"
}

// What operators ask for.
const (
	verbCancel   = "cancel"
	verbSkip     = "skip"
	verbRetry    = "retry"
	verbRollback = "rollback"
)

// endOf is the move by which a round ended; nil: there is none.
func (g *group) endOf(round int) *history.BatchMove {
	for _, m := range g.moves {
		if m.Round == round && m.Ended {
			return m
		}
	}
	return nil
}

// addTo adds a violation about a batch.
func (f *found) addTo(n Name, x *index, g *group, format string, args ...any) {
	at := x.begin
	for _, s := range g.rows {
		at = max(at, x.last(s))
	}
	f.add(n, at, 0, "batch %d %q "+format, slices.Concat([]any{g.id, g.name()}, args)...)
	f.all[len(f.all)-1].IDs = g.ids()
}
