package model_test

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongPlans changes what is listed, and what a resumption does.
type wrongPlans struct {
	*storetest.OnModel

	plan   func(*store.ChunkPlanInfo)
	resume func(*storetest.OnModel)
}

func (w wrongPlans) ListChunks(ctx context.Context, f store.ChunkPlanFilter) ([]store.ChunkPlanInfo, error) {
	list, err := w.OnModel.ListChunks(ctx, f)
	for i := range list {
		if w.plan != nil {
			w.plan(&list[i])
		}
	}
	return list, err
}

func (w wrongPlans) ResumeChunks(ctx context.Context, name, by string) (bool, error) {
	changed, err := w.OnModel.ResumeChunks(ctx, name, by)
	if w.resume != nil {
		w.resume(w.OnModel)
	}
	return changed, err
}

func wrongPlan(f func(*store.ChunkPlanInfo)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongPlans{OnModel: m, plan: f} }
}

func operatedSabotages() []sabotage {
	return []sabotage{
		{"a stopped plan looks as if it went on", wrongPlan(func(i *store.ChunkPlanInfo) {
			if i.State == store.ChunksStopped {
				i.State = store.ChunksPlanning
			}
		}), "chunks_operated/the state of a plan"},
		{"what is held is not seen", wrongPlan(func(i *store.ChunkPlanInfo) { i.Held = 0 }), "chunks_operated/what is held is counted"},
		{"a resumption keeps the batch", func(m *storetest.OnModel) storetest.Harness {
			return wrongPlans{OnModel: m, resume: func(m *storetest.OnModel) {
				m.TamperChunks(func(plans map[string]*model.ChunkPlan, _ map[task.ID]*model.Chunk) {
					for _, p := range plans {
						if pass := p.Passes[p.State.Pass]; pass != nil && pass.Batch == 0 {
							pass.Batch = 1
						}
					}
				})
			}}
		}, "chunks_operated/a stopped pass goes on in another batch"},
	}
}
