package check

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/history"
)

const mark = "mark" // the type of the tasks of chunks

// plan makes histories of a plan that cuts a table with the keys 1 to 30, of which one pass has planned three chunks.
type plan struct{ h history.History }

func newPlan() *plan {
	p := &plan{history.History{Kinds: map[string]history.Kind{mark: {Name: mark, Chunk: true}}}}
	p.h.Chunks = history.Chunks{
		Ahead: 3, Marks: map[int]int{1: 30}, Sealed: []history.ChunkSeal{{Pass: 1, Chunks: 3}},
		Passes: []history.ChunkPass{{Pass: 1, Chunks: 3, Upto: 30, Rows: 30, Sealed: true, BatchSealed: true}},
	}
	for n := range 3 {
		p.chunk(int64(10*n), int64(10*n+10))
	}
	return p
}

// chunk adds a chunk of the pass that has succeeded.
func (p *plan) chunk(after, through int64) *plan {
	c := &p.h.Chunks
	id, rows := int64(len(c.Steps)+1), history.ChunkRange{After: after, Through: through}
	c.Steps = append(c.Steps, history.ChunkStep{ChunkRange: rows, Task: id, Pass: 1, Live: len(c.Steps) + 1})
	c.Tasks = append(c.Tasks, history.ChunkTask{ChunkRange: rows, ID: id, Pass: 1, Rows: through - after})
	p.h.Rows = append(p.h.Rows, history.Row{ID: id, Key: strconv.FormatInt(id, 10), Type: mark, State: "succeeded", Archived: 1, Fence: 2})
	return p
}

// half adds one of the halves of a chunk.
func (p *plan) half(after, through int64) *plan {
	p.chunk(after, through).h.Chunks.Steps[len(p.h.Chunks.Steps)-1].Half = true
	return p
}

// split ends a chunk as split.
func (p *plan) split(id, low, high int64) *plan {
	p.h.Rows[id-1].State, p.h.Rows[id-1].Result = "split", fmt.Appendf(nil, `{"split_into": [%d, %d]}`, low, high)
	return p
}

func (p *plan) but(change func(c *history.Chunks)) *plan {
	change(&p.h.Chunks)
	return p
}

func TestChunks(t *testing.T) {
	t.Parallel()
	halved := func() *plan {
		return newPlan().split(2, 4, 5).half(10, 15).half(15, 20)
	}
	pass := func(change func(p *history.ChunkPass)) *plan {
		return newPlan().but(func(c *history.Chunks) { change(&c.Passes[0]) })
	}
	step := func(n int, change func(s *history.ChunkStep, t *history.ChunkTask)) *plan {
		return newPlan().but(func(c *history.Chunks) { change(&c.Steps[n], &c.Tasks[n]) })
	}
	for name, c := range map[string]struct {
		plan   *plan
		breaks []Name
	}{
		"no table":   {&plan{}, nil},
		"three":      {newPlan(), nil},
		"a gap":      {step(1, func(s *history.ChunkStep, t *history.ChunkTask) { s.After, t.After = 12, 12 }), nil},
		"an overlap": {step(1, func(s *history.ChunkStep, t *history.ChunkTask) { s.After, t.After = 9, 9 }), []Name{ChunkRangesDisjoint}},
		"a range twice": {
			step(1, func(s *history.ChunkStep, t *history.ChunkTask) {
				s.After, s.Through, t.After, t.Through = 0, 10, 0, 10
			}),
			[]Name{ChunkRangesDisjoint},
		},
		"a range without keys": {
			step(2, func(s *history.ChunkStep, t *history.ChunkTask) { s.After, t.After = 30, 30 }), []Name{ChunkRangesDisjoint},
		},
		"beside a live one": {step(2, func(s *history.ChunkStep, _ *history.ChunkTask) { s.Beside = 1 }), []Name{ChunkRangesDisjoint}},
		"another payload":   {step(2, func(_ *history.ChunkStep, t *history.ChunkTask) { t.After = 21 }), []Name{ChunkRangesDisjoint}},
		"another pass's":    {step(2, func(_ *history.ChunkStep, t *history.ChunkTask) { t.Pass = 2 }), []Name{ChunkRangesDisjoint}},
		"a task of no chunk": {
			newPlan().but(func(c *history.Chunks) { c.Tasks = append(c.Tasks, history.ChunkTask{ID: 9}) }), []Name{ChunkRangesDisjoint},
		},
		"below its pass":       {pass(func(p *history.ChunkPass) { p.From = 1 }), []Name{ChunkRangesDisjoint}},
		"above its pass":       {pass(func(p *history.ChunkPass) { p.Upto = 29 }), []Name{ChunkRangesDisjoint}},
		"the cursor stays":     {pass(func(p *history.ChunkPass) { p.Chunks, p.Rows = 2, 20 }), []Name{ChunkRangesDisjoint}},
		"rows miscounted":      {pass(func(p *history.ChunkPass) { p.Rows = 31 }), []Name{ChunkRangesDisjoint}},
		"the batch not sealed": {pass(func(p *history.ChunkPass) { p.BatchSealed = false }), []Name{ChunkRangesDisjoint}},
		"both not sealed":      {pass(func(p *history.ChunkPass) { p.Sealed, p.BatchSealed = false, false }), nil},
		"rows left out":        {newPlan().but(func(c *history.Chunks) { c.Sealed[0].LeftOut = 1 }), []Name{ChunkPassComplete}},
		"too many at once":     {step(2, func(s *history.ChunkStep, _ *history.ChunkTask) { s.Live = 4 }), []Name{ChunksAhead}},
		"never marked":         {newPlan().but(func(c *history.Chunks) { c.Marks = map[int]int{0: 1, 1: 29} }), []Name{ChunkRowsMarked}},
		"marked twice":         {newPlan().but(func(c *history.Chunks) { c.Marks = map[int]int{1: 29, 2: 1} }), []Name{ChunkRowsMarked}},
		"not ended":            {newPlan().but(func(c *history.Chunks) { c.Passes[0].Sealed = false }), nil},
		"halves":               {halved(), nil}, // two live ones more than may be planned ahead
		"halves of a half":     {halved().split(5, 6, 7).half(15, 17).half(17, 20), nil},
		"no halves":            {newPlan().split(2, 4, 5), []Name{ChunkHalvesCover}},
		"one half":             {newPlan().split(2, 4, 5).half(10, 20), []Name{ChunkHalvesCover}},
		"one half twice":       {newPlan().split(2, 4, 4).half(10, 20), []Name{ChunkHalvesCover}},
		"others as halves":     {newPlan().split(2, 1, 3), []Name{ChunkHalvesCover}},
		"halves of two":        {halved().split(3, 4, 5), []Name{ChunkHalvesCover}},
		"halves of nothing":    {newPlan().half(30, 31).half(31, 32), []Name{ChunkHalvesCover, ChunkHalvesCover}},
		"halves with a gap":    {newPlan().split(2, 4, 5).half(10, 15).half(16, 20), []Name{ChunkHalvesCover}},
		"halves too short":     {newPlan().split(2, 4, 5).half(10, 15).half(15, 19), []Name{ChunkHalvesCover}},
		"halves too long":      {newPlan().split(2, 4, 5).half(9, 15).half(15, 20), []Name{ChunkHalvesCover}},
		"halves that overlap":  {newPlan().split(2, 4, 5).half(10, 16).half(15, 20), []Name{ChunkHalvesCover}},
		"a live half": {
			halved().but(func(c *history.Chunks) { c.Steps[4].Beside = 1 }), []Name{ChunkRangesDisjoint},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var broken []Name
			for _, v := range Check(&c.plan.h) {
				if !strings.HasPrefix(string(v.Invariant), "Chunk") { // nothing is said of attempts
					continue
				}
				broken = append(broken, v.Invariant)
				require.Contains(t, Trace(&c.plan.h, v), v.What)
			}
			require.Equal(t, c.breaks, broken)
		})
	}
}
