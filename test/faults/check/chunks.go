package check

import (
	"cmp"
	"slices"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// ChunkRangesDisjoint says: the ranges of one pass over a table do not overlap, none overlaps one whose task has not finished, they lie
// within what the ledger says of the pass, and are those of its tasks; the pass has as many chunks and rows as the ledger counts, and
// its batch is sealed if the pass is.
//
// It must hold because the chunks are inserted in the transaction that moves the plan on, which applies only to the version that was
// seen and only behind the range before.
const ChunkRangesDisjoint Name = "ChunkRangesDisjoint"

// ChunkPassComplete says: a pass leaves out nothing. A row that was there when it began, and is not done when it is sealed, is in a
// chunk of the pass, or in one that the pass went around.
//
// It must hold because each range of a step begins where the one before ended, and because the cursor moves in the transaction that
// inserts the chunks.
const ChunkPassComplete Name = "ChunkPassComplete"

// ChunkHalvesCover says: a chunk ended as split if, and only if, it has two halves, and these cover exactly what it did.
//
// It must hold because one transaction ends the chunk and inserts its halves.
const ChunkHalvesCover Name = "ChunkHalvesCover"

// ChunkRowsMarked says: in the end each row of the table was marked by the task of a chunk, once.
//
// It must hold because a pass leaves out only ranges that have no rows, and ranges of earlier passes that are live or have failed
// three times; and later passes look at the whole table again. Tasks mark only rows that are not marked. How many passes there were
// does not matter: the next one begins when one is over, which takes as long as rows come in faster than they are marked, and until
// another agent plans in the place of one that was killed.
const ChunkRowsMarked Name = "ChunkRowsMarked"

// ChunksAhead says: no more chunks than the plan declares wait or run at once. Halves of chunks that were split come on top.
const ChunksAhead Name = "ChunksAhead"

func chunksPlanned(x *index, f *found) {
	c := &x.h.Chunks
	byPass, tasks := map[int][]history.ChunkStep{}, map[int64]history.ChunkTask{}
	for _, t := range c.Tasks {
		tasks[t.ID] = t
	}
	for _, s := range c.Steps {
		if t, there := tasks[s.Task]; !there || t.ChunkRange != s.ChunkRange || t.Pass != s.Pass {
			f.add(ChunkRangesDisjoint, x.end, s.Task, "is for (%d, %d] of pass %d, and its payload says %+v", s.After, s.Through, s.Pass, t)
		}
		if s.Beside > 0 {
			f.add(ChunkRangesDisjoint, x.end, s.Task, "was inserted for (%d, %d] of pass %d beside %d chunks with keys of that range that had not "+
				"finished", s.After, s.Through, s.Pass, s.Beside)
		}
		if s.Part != "" {
			continue
		}
		byPass[s.Pass] = append(byPass[s.Pass], s)
		if s.Live > c.Ahead {
			f.add(ChunksAhead, x.end, s.Task, "was inserted as one of %d chunks that had not finished, and %d may", s.Live, c.Ahead)
		}
	}
	if len(c.Steps) != len(c.Tasks) {
		f.add(ChunkRangesDisjoint, x.end, 0, "there are %d chunks and %d tasks of them", len(c.Steps), len(c.Tasks))
	}
	for i := range c.Passes {
		inspectPass(x, &c.Passes[i], byPass[c.Passes[i].Pass], tasks, f)
	}
	for _, s := range c.Sealed {
		if s.LeftOut > 0 {
			f.add(ChunkPassComplete, x.end, 0, "pass %d was sealed with %d chunks, and left out %d rows that were there when it began",
				s.Pass, s.Chunks, s.LeftOut)
		}
	}
	inspectHalves(x, f)
	for times, rows := range c.Marks {
		if times != 1 {
			f.add(ChunkRowsMarked, x.end, 0, "%d rows of the table were marked %d times", rows, times)
		}
	}
}

// inspectPass looks at a pass and the chunks that it cut.
func inspectPass(x *index, p *history.ChunkPass, all []history.ChunkStep, tasks map[int64]history.ChunkTask, f *found) {
	slices.SortStableFunc(all, func(a, b history.ChunkStep) int {
		return cmp.Or(cmp.Compare(a.Through, b.Through), cmp.Compare(a.After, b.After))
	})
	at, rows := p.From, int64(0)
	for _, s := range all {
		rows += tasks[s.Task].Rows
		if s.After < at || s.Through <= s.After {
			f.add(ChunkRangesDisjoint, x.end, s.Task, "is for (%d, %d] of pass %d, which was planned up to %d already",
				s.After, s.Through, p.Pass, at)
		}
		at = max(at, s.Through)
	}
	switch {
	case at > p.Upto:
		f.add(ChunkRangesDisjoint, x.end, 0, "pass %d has a chunk up to %d, and the ledger says %d", p.Pass, at, p.Upto)
	case len(all) != p.Chunks || rows != p.Rows:
		f.add(ChunkRangesDisjoint, x.end, 0, "pass %d has %d chunks of %d rows, and the ledger says %d of %d",
			p.Pass, len(all), rows, p.Chunks, p.Rows)
	case p.Sealed && p.Chunks > 0 && !p.BatchSealed:
		f.add(ChunkRangesDisjoint, x.end, 0, "pass %d is planned to its end, and its batch is not sealed", p.Pass)
	}
}

// chunkPlace is the place of a chunk in a plan.
type chunkPlace struct {
	step int64
	item int
	part string
}

// inspectHalves looks at what became of chunks that were split.
func inspectHalves(x *index, f *found) {
	places := map[chunkPlace]*history.ChunkStep{}
	for i := range x.h.Chunks.Steps {
		s := &x.h.Chunks.Steps[i]
		at := chunkPlace{s.Step, s.Item, s.Part}
		if places[at] != nil {
			f.add(ChunkHalvesCover, x.end, s.Task, "has the place %+v of task %d", at, places[at].Task)
		}
		places[at] = s
	}
	for i := range x.h.Chunks.Steps {
		s := &x.h.Chunks.Steps[i]
		low, high := places[chunkPlace{s.Step, s.Item, s.Part + "0"}], places[chunkPlace{s.Step, s.Item, s.Part + "1"}]
		switch state := x.stateOf(s.Task); {
		case s.Part != "" && places[chunkPlace{s.Step, s.Item, s.Part[:len(s.Part)-1]}] == nil:
			f.add(ChunkHalvesCover, x.end, s.Task, "is part %q of nothing", s.Part)
		case (low != nil || high != nil) != (state == task.StateSplit):
			f.add(ChunkHalvesCover, x.end, s.Task, "is %s, halves: %v and %v", state, low, high)
		case low == nil && high == nil:
		case low == nil || high == nil:
			f.add(ChunkHalvesCover, x.end, s.Task, "has one half only")
		case low.After != s.After || low.Through != high.After || high.Through != s.Through || low.Pass != s.Pass || high.Pass != s.Pass:
			f.add(ChunkHalvesCover, x.end, s.Task, "is for (%d, %d] of pass %d, and its halves are %+v and %+v",
				s.After, s.Through, s.Pass, *low, *high)
		}
	}
}

// stateOf is a task's state in the end; "": it is not known.
func (x *index) stateOf(id int64) task.State {
	if s := x.byID[id]; s != nil && s.row != nil {
		return task.State(s.row.State)
	}
	return ""
}
