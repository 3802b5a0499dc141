package v1

import (
	"context"
	"strconv"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func (a *API) taskRoutes() []route {
	return []route{
		{"GET /tasks", a.listTasks},
		{"GET /tasks/{id}", ofTask(a.getTask)},
		{"GET /tasks/{id}/wait", a.waitTask},
		{"GET /tasks/{id}/events", a.streamTask},
		{"GET /tasks/{id}/why", ofTask(a.explainTask)},
		{"POST /tasks", a.enqueueTask},
		{"POST /tasks/{id}/cancel", a.changeTask(ops.VerbCancel)},
		{"POST /tasks/{id}/retry", a.changeTask(ops.VerbRetry)},
		{"POST /tasks/{id}/rollback", a.changeTask(ops.VerbRollback)},
	}
}

// pageBytes bounds what the documents of a page have: the page ends after the task with which they exceed it.
const pageBytes = 8 << 20

// taskPage is a page of tasks.
type taskPage struct {
	Tasks []ops.Task `json:"tasks"`
	Next  string     `json:"next,omitempty"`
	// LookedBack is set where the page ends because enough was looked through.
	LookedBack *ops.LookedBack `json:"looked_back_to,omitempty"`
}

func (a *API) listTasks(c *call) (any, error) {
	q := c.query
	states, err := ops.ParseStates(q.list("state"))
	if err != nil {
		return nil, err
	}
	f := store.TaskFilter{
		Type: q.text("type"), States: states, Key: q.text("key"), Labels: q.labels(),
		Batch: task.BatchID(q.number("batch", maxID)), Before: task.ID(q.number("before", maxID)), Limit: q.limit(),
	}
	if err := q.end(); err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	page, err := ops.PageTasks(c.ctx, s, f, pageBytes)
	if err != nil {
		return nil, err
	}
	p := taskPage{Tasks: page.Tasks, LookedBack: page.LookedBack}
	if page.Before > 0 {
		p.Next = c.next("before", strconv.FormatInt(int64(page.Before), 10))
	}
	return p, nil
}

// maxID is the highest id that there can be.
const maxID = 1<<63 - 1

// ofTask answers a request that names one task, and nothing else.
func ofTask(answer func(ctx context.Context, s Store, id task.ID) (any, error)) handler {
	return func(c *call) (any, error) {
		id, err := c.taskID()
		if err == nil {
			err = c.query.end()
		}
		if err != nil {
			return nil, err
		}
		s, err := c.work()
		if err != nil {
			return nil, err
		}
		return answer(c.ctx, s, id)
	}
}

func (a *API) getTask(ctx context.Context, s Store, id task.ID) (any, error) {
	info, err := ops.ReadTask(ctx, s, id)
	if err != nil {
		return nil, err
	}
	return a.traced(ctx, info), nil
}

// explainTask answers why a task is not running, or what it does.
func (a *API) explainTask(ctx context.Context, s Store, id task.ID) (any, error) {
	return ops.Explain(ctx, s, id)
}

// traced is a task with its trace context, as `task show` has it.
func (a *API) traced(ctx context.Context, i *ops.Task) *ops.Task {
	if a.Trace != nil {
		_ = ops.FillTrace(i, func(id task.ID) (string, error) { return a.Trace(ctx, id) }) // else it stays as it is
	}
	return i
}
