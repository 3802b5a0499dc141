package ops

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Glances is what those read who look again and again for what changes.
type Glances interface {
	// Glance reads tasks, live and finished, by their ids, in the order of ids; it leaves out those that do not exist.
	Glance(ctx context.Context, ids []task.ID) ([]store.Glance, error)
	// Newest reads the live tasks with the highest ids, and likewise of the finished ones and of the followers: n > 0 of each at most.
	Newest(ctx context.Context, n int) ([]store.Mark, error)
}

// GlanceStore is what ReadGlances reads.
type GlanceStore interface {
	Glances
	redactionStore
}

// Glance is a store.Glance as people may see it, as a Task is.
type Glance store.Glance

// ReadGlances reads tasks by their ids. It leaves out those that do not exist.
func ReadGlances(ctx context.Context, s GlanceStore, ids []task.ID) ([]Glance, error) {
	list, err := s.Glance(ctx, ids)
	if err != nil {
		return nil, err
	}
	var masks Redactions
	shown := make([]Glance, len(list))
	for i := range list {
		g := &list[i]
		shown[i] = Glance(*g)
		if g.Progress == nil {
			continue
		}
		if masks == nil {
			if masks, err = ReadRedactions(ctx, s); err != nil {
				return nil, err
			}
		}
		// Of one that was inserted for a failure the payload says which type had it. It is not read: the members of all types are masked.
		shown[i].Progress = masks.Task(&store.TaskInfo{
			Type: g.Type, FailedTask: g.FailedTask, Progress: g.Progress, NotJSON: g.NotJSON,
		}).Progress
	}
	return shown, nil
}
