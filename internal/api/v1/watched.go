package v1

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// glanceEvery is the time between two looks at the tasks that are followed, for all streams together.
const glanceEvery = time.Second

// watched are the tasks that streams follow.
type watched struct {
	mu      sync.Mutex
	streams map[task.ID]int
}

// add notes that a stream follows a task, until it calls what add returns.
func (w *watched) add(id task.ID) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams == nil {
		w.streams = map[task.ID]int{}
	}
	w.streams[id]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.streams[id]--; w.streams[id] == 0 {
			delete(w.streams, id)
		}
	}
}

// ids are the tasks, by their numbers.
func (w *watched) ids() []task.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.streams))
}

// glances are the tasks that were looked at. They are not changed any more.
type glances struct {
	began time.Time
	tasks map[task.ID][]byte // as the data of events; nil: there is none with that id
}

// readGlances looks at the tasks that streams follow, unless that was just done. One that is followed since is not among them. The error is ctx's.
func (a *API) readGlances(ctx context.Context) (glances, error) {
	return a.glances.read(ctx, a, func(ctx context.Context, _ glances) (glances, error) {
		return a.glance(ctx, a.watched.ids())
	})
}

// glance reads tasks.
func (a *API) glance(ctx context.Context, ids []task.ID) (glances, error) {
	seen := glances{began: time.Now(), tasks: make(map[task.ID][]byte, len(ids))}
	if len(ids) == 0 {
		return seen, nil
	}
	list, err := ops.ReadGlances(ctx, a.Store, ids)
	if err != nil {
		return seen, err
	}
	for _, id := range ids {
		seen.tasks[id] = nil
	}
	for i := range list {
		if seen.tasks[list[i].ID], err = json.Marshal(list[i]); err != nil {
			return seen, err
		}
	}
	return seen, nil
}

// first reads a task that is about to be followed, in turn with other requests.
func (a *API) first(ctx context.Context, id task.ID) ([]byte, error) {
	done, err := a.bounds.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	seen, err := a.glance(ctx, []task.ID{id})
	if err != nil {
		return nil, err
	}
	if seen.tasks[id] == nil {
		return nil, ops.NoTask(id)
	}
	return seen.tasks[id], nil
}
