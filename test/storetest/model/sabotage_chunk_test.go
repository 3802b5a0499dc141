package model_test

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongChunks changes what a look finds, steps before they are applied, and what they have left.
type wrongChunks struct {
	*storetest.OnModel

	look          func(*store.ChunkLook)
	before, after func(*storetest.OnModel, *store.ChunkStep)
}

func (w wrongChunks) LookPlan(ctx context.Context, name string, limit int) (*store.ChunkLook, error) {
	look, err := w.OnModel.LookPlan(ctx, name, limit)
	if err == nil && w.look != nil {
		w.look(look)
	}
	return look, err
}

func (w wrongChunks) ApplyChunks(ctx context.Context, s *store.ChunkStep) (bool, error) {
	step := *s
	step.Items = append([]store.ChunkItem(nil), s.Items...)
	if w.before != nil {
		w.before(w.OnModel, &step)
	}
	applied, err := w.OnModel.ApplyChunks(ctx, &step)
	s.Batch = step.Batch
	if w.after != nil {
		w.after(w.OnModel, s)
	}
	return applied, err
}

func wrongChunkLook(f func(*store.ChunkLook)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongChunks{OnModel: m, look: f} }
}

func wrongStep(f func(*storetest.OnModel, *store.ChunkStep)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongChunks{OnModel: m, before: f} }
}

// leaves changes all chunks after each step.
func leaves(f func(*model.Chunk)) wrong {
	return func(m *storetest.OnModel) storetest.Harness {
		return wrongChunks{OnModel: m, after: func(m *storetest.OnModel, _ *store.ChunkStep) {
			m.TamperChunks(func(_ map[string]*model.ChunkPlan, all map[task.ID]*model.Chunk) {
				for _, c := range all {
					f(c)
				}
			})
		}}
	}
}

// anyPlanVersion has a step apply whatever the plan has become.
func anyPlanVersion(m *storetest.OnModel, s *store.ChunkStep) {
	m.TamperChunks(func(plans map[string]*model.ChunkPlan, _ map[task.ID]*model.Chunk) {
		if p := plans[s.Name]; p != nil {
			s.Before, s.After.Version = p.State.Version, p.State.Version+1
			if pass := p.Passes[p.State.Pass]; pass != nil && len(s.Items) > 0 {
				s.Items[0].Range.After = pass.Through
			}
		}
	})
}

func chunkSabotages() []sabotage {
	return []sabotage{
		{"a step applies twice", wrongStep(func(m *storetest.OnModel, s *store.ChunkStep) {
			anyPlanVersion(m, s)
			s.Items = s.Items[:min(len(s.Items), 1)]
			if len(s.Items) == 1 {
				more := *s.Items[0].Range.Through + "0"
				s.Items[0].Range.Through, s.After.Cursor = &more, &more
			}
		}), "chunks/a version applies once"},
		{"a paused plan is planned", wrongStep(func(m *storetest.OnModel, _ *store.ChunkStep) {
			m.TamperChunks(func(plans map[string]*model.ChunkPlan, _ map[task.ID]*model.Chunk) {
				for _, p := range plans {
					p.PausedAt, p.Parked = time.Time{}, time.Time{}
				}
			})
		}), "chunks/a paused or parked plan is left alone"},
		{"a pass is not sealed", wrongStep(func(_ *storetest.OnModel, s *store.ChunkStep) { s.Sealed = false }), "chunks/a pass is a batch, sealed at its end"},
		{"an obstacle is forgotten", wrongChunkLook(func(l *store.ChunkLook) { l.Obstacles = l.Obstacles[:min(len(l.Obstacles), 1)] }),
			"chunks/obstacles of earlier passes"},
		{"no word of what is behind", wrongChunkLook(func(l *store.ChunkLook) { l.More = false }), "chunks/obstacles of earlier passes"},
		{"what is skipped stays behind", leaves(func(c *model.Chunk) { c.Pass = c.Planned }), "chunks/a range that is skipped is one of this pass"},
		{"failures are not counted", leaves(func(c *model.Chunk) { c.Failures = 0 }), "chunks/a range that failed is planned again once"},
		{"what failed is forgotten", leaves(func(c *model.Chunk) {
			if c.State == string(store.ChunkFailed) {
				c.State = string(store.ChunkOver)
			}
		}), "chunks/what failed is known past its retention"},
		{"a retried range is planned again", wrongStep(func(_ *storetest.OnModel, s *store.ChunkStep) {
			for i := range s.Items {
				s.Items[i].Obstacle = nil
			}
		}), "chunks/a range that is retried is not planned again"},
		{"what came back is not seen", leaves(func(c *model.Chunk) { c.Plan = "none" }), "chunks/a success that is rolled back is an obstacle"},
		{"what was measured is measured again", wrongStep(func(_ *storetest.OnModel, s *store.ChunkStep) { s.After.Sampled = "" }),
			"chunks/what succeeded is measured"},
		{"a plan forgets its size", wrongStep(func(_ *storetest.OnModel, s *store.ChunkStep) { s.After.Size = 0 }), "chunks/where a plan stands is kept"},
	}
}
