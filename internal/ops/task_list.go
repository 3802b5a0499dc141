package ops

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
)

// taskStep is how many tasks PageTasks reads at once: however large they are, no more than that are in memory beyond its bound.
const taskStep = 50

// PageTasks is ListTasks for those who hold the page in memory: it ends after the task with which its documents exceed so many bytes.
// more reports whether there may be further tasks, before the last one.
func PageTasks(ctx context.Context, s Store, f store.TaskFilter, most int) (list []Task, more bool, err error) {
	list = []Task{}
	limit, bytes := store.PageSize(f.Limit), 0
	for {
		f.Limit = min(limit-len(list), taskStep)
		step, err := ListTasks(ctx, s, f)
		if err != nil {
			return nil, false, err
		}
		for i := range step {
			list = append(list, step[i])
			if bytes += size(&step[i]); bytes > most {
				return list, true, nil
			}
		}
		switch {
		case len(step) < f.Limit:
			return list, false, nil
		case len(list) == limit:
			return list, true, nil
		}
		f.Before = step[len(step)-1].ID
	}
}

// size is how many bytes the documents of a task have.
func size(i *Task) int {
	return len(i.Payload) + len(i.RollbackPayload) + len(i.Result) + len(i.Checkpoint) + len(i.Labels) + len(i.Error) + len(i.Progress)
}
