package check

import (
	"cmp"
	"slices"

	"github.com/leasehold/leasehold/test/faults/history"
)

// ChunkRangesDisjoint says: the ranges of one pass over a table do not overlap, lie within what the ledger says of the pass, and are
// those of its tasks; the pass has as many chunks and rows as the ledger counts, and its batch is sealed if the pass is.
//
// It must hold because the chunks are inserted in the transaction that moves the plan on, which applies only to the version that was
// seen and only behind the range before.
const ChunkRangesDisjoint Name = "ChunkRangesDisjoint"

// ChunkRowsMarked says: in the end each row of the table was marked by the task of a chunk, once.
//
// It must hold because a pass leaves out only ranges that have no rows, and ranges of earlier passes that are live or have failed
// three times; and later passes look at the whole table again. Tasks mark only rows that are not marked.
const ChunkRowsMarked Name = "ChunkRowsMarked"

// ChunksAhead says: no more chunks than the plan declares wait or run at once.
const ChunksAhead Name = "ChunksAhead"

func chunksPlanned(x *index, f *found) {
	c := &x.h.Chunks
	byPass, tasks := map[int][]history.ChunkStep{}, map[int64]history.ChunkTask{}
	for _, t := range c.Tasks {
		tasks[t.ID] = t
	}
	for _, s := range c.Steps {
		byPass[s.Pass] = append(byPass[s.Pass], s)
		if t, there := tasks[s.Task]; !there || t.ChunkRange != s.ChunkRange || t.Pass != s.Pass {
			f.add(ChunkRangesDisjoint, x.end, s.Task, "is for (%d, %d] of pass %d, and its payload says %+v", s.After, s.Through, s.Pass, t)
		}
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
	for times, rows := range c.Marks {
		if times != 1 {
			f.add(ChunkRowsMarked, x.end, 0, "%d rows of the table were marked %d times", rows, times)
		}
	}
}

func inspectPass(x *index, p *history.ChunkPass, all []history.ChunkStep, tasks map[int64]history.ChunkTask, f *found) {
	slices.SortStableFunc(all, func(a, b history.ChunkStep) int {
		return cmp.Or(cmp.Compare(a.Through, b.Through), cmp.Compare(a.After, b.After))
	})
	at, rows := p.From, int64(0)
	for _, s := range all {
		rows += tasks[s.Task].Rows
		if s.After < at || s.Through <= s.After {
			f.add(ChunkRangesDisjoint, x.end, s.Task, "is for (%d, %d] of pass %d, which was planned up to %d already", s.After, s.Through, p.Pass, at)
		}
		at = max(at, s.Through)
	}
	switch {
	case at > p.Upto:
		f.add(ChunkRangesDisjoint, x.end, 0, "pass %d has a chunk up to %d, and the ledger says %d", p.Pass, at, p.Upto)
	case len(all) != p.Chunks || rows != p.Rows:
		f.add(ChunkRangesDisjoint, x.end, 0, "pass %d has %d chunks of %d rows, and the ledger says %d of %d", p.Pass, len(all), rows, p.Chunks, p.Rows)
	case p.Sealed && p.Chunks > 0 && !p.BatchSealed:
		f.add(ChunkRangesDisjoint, x.end, 0, "pass %d is planned to its end, and its batch is not sealed", p.Pass)
	}
}
