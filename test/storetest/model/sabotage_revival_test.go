package model_test

import (
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// revivalSabotages rebuild, when a task is retried, the history of the attempt that ended it, out of what the finished row
// still says of it.
func revivalSabotages() []sabotage {
	rebuilds := func(f func(r *model.Row, a *model.Attempt)) wrong {
		return func(m *storetest.OnModel) storetest.Harness {
			return wrongOps{m, func(m *storetest.OnModel, does string, id task.ID) {
				if does != "retry" {
					return
				}
				m.Tamper(func(_, archive map[task.ID]*model.Row, attempts map[task.ID][]model.Attempt) {
					of := attempts[id]
					if r := archive[id]; r != nil && r.State.Phase() == task.Run && len(of) > 0 && of[len(of)-1].Settled == r.Fence-1 {
						f(r, &of[len(of)-1])
					}
				})
			}, nil}
		}
	}
	return []sabotage{
		{"rebuilds the fence", rebuilds(func(r *model.Row, a *model.Attempt) { a.Fence = r.Fence - 1 }),
			"history/reviving a task that was reaped loses nothing"},
		{"rebuilds the number of the attempt", rebuilds(func(r *model.Row, a *model.Attempt) { a.AttemptInfo.Attempt = r.Attempt }),
			"history/reviving the task loses nothing"},
		{"rebuilds the error", rebuilds(func(r *model.Row, a *model.Attempt) { a.Error = r.Error }),
			"history/reviving the task loses nothing"},
	}
}
