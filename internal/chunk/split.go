package chunk

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// splitAfter is how often a chunk stalls or times out before it is split.
const splitAfter = 2

// splitFor bounds how long the middle of a chunk is looked for: meanwhile the lease of its last attempt runs out.
const splitFor = 3 * time.Second

// SplitAt finds where a range of about that many rows is split. store.ErrNoChunk: it has no key strictly inside.
func SplitAt(ctx context.Context, src Source, r Range, rows int) (*task.Split, error) {
	k, found, err := src.Middle(ctx, r, rows)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, store.ErrNoChunk
	}
	low := max(rows/2, 1)
	return &task.Split{At: string(k), Rows: [2]int{low, max(rows-low, 1)}}, nil
}

// Splitter finds where chunks of one agent's plans are split.
type Splitter struct {
	tasks Tasks
	of    atomic.Pointer[splitting]
	log   *slog.Logger
}

// splitting is what chunks are split of.
type splitting struct {
	plans map[string]*Plan // by name
	types map[string]bool  // that have plans
}

// NewSplitter returns a splitter of chunks of these plans.
func NewSplitter(tasks Tasks, plans []Plan, log *slog.Logger) *Splitter {
	s := &Splitter{tasks: tasks, log: log}
	s.Replace(plans)
	return s
}

// Replace replaces the plans, at any time. They must not change any more.
func (s *Splitter) Replace(plans []Plan) {
	of := &splitting{plans: map[string]*Plan{}, types: map[string]bool{}}
	for i := range plans {
		spec := &plans[i].Declaration.Spec
		of.plans[spec.Name], of.types[spec.Task] = &plans[i], true
	}
	s.of.Store(of)
}

// MaySplit reports whether tasks of the type can be chunks of this agent's plans.
func (s *Splitter) MaySplit(typ string) bool { return s.of.Load().types[typ] }

// Split returns how a task is split that has stalled or timed out once more than its history says. nil: it is retried as it is. It is
// no chunk of a plan of this agent, or it did not stall or time out before, or it has one key only, or the store or the source is out
// of reach. It takes 3 s at most.
func (s *Splitter) Split(ctx context.Context, t *task.Task) *task.Split {
	ctx, cancel := context.WithTimeout(ctx, splitFor)
	defer cancel()
	split, err := s.split(ctx, t.ID)
	if err != nil && !errors.Is(err, store.ErrNoChunk) {
		s.log.Warn("a chunk cannot be split now: it is retried as it is", "task", t.ID, "type", t.Type, "error", err)
	}
	return split
}

func (s *Splitter) split(ctx context.Context, id task.ID) (*task.Split, error) {
	c, err := s.tasks.ChunkTask(ctx, id)
	if err != nil {
		return nil, err
	}
	p := s.of.Load().plans[c.Plan]
	ours := p != nil && p.Declaration.Spec.Table == c.Table && p.Declaration.Spec.Key == c.Key
	if !ours || c.Stuck+1 < splitAfter {
		return nil, store.ErrNoChunk
	}
	src, err := p.Open()
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return SplitAt(ctx, src, c.Range, c.Rows)
}
