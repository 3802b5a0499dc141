package model_test

import (
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// splitting changes a store after each split.
func splitting(f func(m *storetest.OnModel)) wrong {
	return after(func(m *storetest.OnModel, rows []store.Settlement, answers []store.Answer) {
		for i, a := range answers {
			if a == store.Applied && rows[i].Next.State == task.StateSplit {
				f(m)
			}
		}
	})
}

// halves changes the rows that a split has inserted.
func halves(f func(r *model.Row)) wrong {
	return splitting(func(m *storetest.OnModel) {
		m.Each(func(r *model.Row) {
			if r.State == task.StatePending && r.Fence == 1 {
				f(r)
			}
		})
	})
}

func splitSabotages() []sabotage {
	return []sabotage{
		{"halves do not wait for the lease", halves(func(r *model.Row) { r.RunAt = time.Time{} }),
			"chunks_split/two halves take the place of a chunk"},
		{"halves leave the batch", halves(func(r *model.Row) { r.Batch = 0 }), "chunks_split/two halves take the place of a chunk"},
		{"halves forget what was started", halves(func(r *model.Row) { r.EverStarted = false }), "chunks_split/halves inherit what was started"},
		{"a split leaves the plan as it was", splitting(func(m *storetest.OnModel) {
			m.TamperChunks(func(plans map[string]*model.ChunkPlan, _ map[task.ID]*model.Chunk) {
				for _, p := range plans {
					p.State.Version--
				}
			})
		}), "chunks_split/a step that did not see the split does not apply"},
		{"halves change places", splitting(func(m *storetest.OnModel) {
			m.TamperChunks(func(_ map[string]*model.ChunkPlan, all map[task.ID]*model.Chunk) {
				for _, c := range all {
					if c.Part == "0" {
						c.Part = "2"
					}
				}
			})
		}), "chunks_split/halves are obstacles in the place of the chunk"},
		{"what is no chunk is done", says(store.Applied, store.CannotSplit), "chunks_split/only a chunk is split"},
		{"what was split is lost", says(store.Lost, store.Ended), "chunks_split/a split is settled once"},
	}
}
