package check

import (
	"cmp"
	"encoding/json"
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
		if s.Half {
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

// inspectHalves looks at what became of chunks that were split. The result of one names its halves.
func inspectHalves(x *index, f *found) {
	steps, halfOf := map[int64]*history.ChunkStep{}, map[int64]int64{}
	for i := range x.h.Chunks.Steps {
		steps[x.h.Chunks.Steps[i].Task] = &x.h.Chunks.Steps[i]
	}
	for i := range x.h.Chunks.Steps {
		s := &x.h.Chunks.Steps[i]
		r := x.byID[s.Task]
		if r == nil || r.row == nil || task.State(r.row.State) != task.StateSplit {
			continue
		}
		ids := splitInto(r.row.Result)
		low, high := steps[ids[0]], steps[ids[1]]
		switch {
		case low == nil || high == nil || !low.Half || !high.Half || halfOf[ids[0]] != 0 || halfOf[ids[1]] != 0:
			f.add(ChunkHalvesCover, x.end, s.Task, "is split, and has no halves of its own: %s", r.row.Result)
		case low.After != s.After || low.Through != high.After || high.Through != s.Through || low.Pass != s.Pass || high.Pass != s.Pass:
			f.add(ChunkHalvesCover, x.end, s.Task, "is for (%d, %d] of pass %d, and its halves are %+v and %+v",
				s.After, s.Through, s.Pass, *low, *high)
		}
		halfOf[ids[0]], halfOf[ids[1]] = s.Task, s.Task
	}
	for _, s := range x.h.Chunks.Steps {
		if s.Half && halfOf[s.Task] == 0 {
			f.add(ChunkHalvesCover, x.end, s.Task, "is half of nothing that was split")
		}
	}
}

// splitInto returns the ids in the result of a chunk that was split; zeros where it is no such result.
func splitInto(result json.RawMessage) (ids [2]int64) {
	var to struct {
		SplitInto [2]int64 `json:"split_into"`
	}
	if err := json.Unmarshal(result, &to); err != nil {
		return ids
	}
	return to.SplitInto
}
