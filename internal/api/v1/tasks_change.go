package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// enqueueTask inserts a task, or does with the live one that has its key what the request asks for.
func (a *API) enqueueTask(c *call) (any, error) {
	strict := c.query.flag("strict")
	if err := c.query.end(); err != nil {
		return nil, err
	}
	once, err := c.idempotencyKey()
	if err != nil {
		return nil, err
	}
	if c.r.ContentLength == 0 {
		return nil, bad(http.StatusBadRequest, `the body must be a task, such as {"type": "invoice.send", "payload": {"invoice": 7}}`)
	}
	doc, err := c.body(maxTask)
	if err != nil {
		return nil, err
	}
	r, err := ops.ReadRequest(doc, "body", store.EnqueueRequest{CreatedBy: defaultBy, Key: once})
	if err != nil {
		return nil, err
	}
	enqueue := ops.Enqueue
	if once != "" {
		if r.Key != once {
			return nil, bad(http.StatusBadRequest, "the key and the %s differ: the header becomes the key, so leave one of them out", idempotencyKey)
		}
		enqueue = ops.EnqueueOnce
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	if strict {
		reason, _, err := ops.Untaken(c.ctx, s, r.Type)
		if err != nil {
			return nil, err
		}
		if reason != "" {
			return nil, bad(http.StatusConflict, "%s; nothing was enqueued (strict)", reason)
		}
	}
	id, answer, err := enqueue(c.ctx, s, r)
	if err != nil {
		return nil, err
	}
	if answer == store.EnqueuedInserted || answer == store.EnqueuedFollows {
		c.status = http.StatusCreated
		c.w.Header().Set("Location", fmt.Sprintf("%s/tasks/%d", Prefix, id))
	}
	return ops.ResultOf(id, answer), nil
}

// maxKey bounds an Idempotency-Key, in bytes. A key of a task may be longer.
const maxKey = 255

// idempotencyKey reads the header, in quotes as its draft standard has it or without; "": there is none.
func (c *call) idempotencyKey() (string, error) {
	values := c.r.Header.Values(idempotencyKey)
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	if quoted, ok := strings.CutPrefix(key, `"`); ok {
		key = strings.TrimSuffix(quoted, `"`)
	}
	if len(values) > 1 || key == "" || len(key) > maxKey || !store.Storable(key) {
		return "", bad(http.StatusBadRequest, "%s: send it once, UTF-8 of 1 to %d bytes", idempotencyKey, maxKey)
	}
	return key, nil
}

// changeTask requests a change of one task.
func (a *API) changeTask(verb ops.Verb) handler {
	return func(c *call) (any, error) {
		id, err := c.taskID()
		if err != nil {
			return nil, err
		}
		change := ops.TaskChange{Verb: verb}
		if verb == ops.VerbRetry {
			change.By, err = c.changeOf(maxTask, members{"payload": &change.Payload})
		} else {
			change.By, err = c.change(nil)
		}
		if err != nil {
			return nil, err
		}
		s, err := c.work()
		if err != nil {
			return nil, err
		}
		reports, err := ops.ChangeTasks(c.ctx, s, []task.ID{id}, change)
		if err != nil {
			return nil, err
		}
		if err := ops.ReportsError(reports); err != nil {
			if reports[0].Missing {
				return nil, err
			}
			return nil, bad(http.StatusConflict, "%s", err)
		}
		return reports[0], nil
	}
}

// Bounds of a wait.
const (
	defaultWait = 30 * time.Second
	longestWait = time.Minute
)

// waitTask answers with a task once it has finished, or as it is after a while.
func (a *API) waitTask(c *call) (any, error) {
	id, err := c.taskID()
	if err != nil {
		return nil, err
	}
	within := c.query.span("timeout", defaultWait, longestWait)
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if err := c.take(a.bounds.waits, 1); err != nil {
		return nil, err
	}
	s := turns{a.Store, &a.bounds}
	info, err := ops.ReadTask(c.ctx, s, id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.lasting(within)
	defer cancel()
	infos, err := ops.Wait(ctx, s, []task.ID{id}, ops.Watch{})
	if infos[0] != nil {
		info = infos[0]
	}
	if err != nil && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) {
		return nil, err
	}
	return a.traced(ctx, info), nil
}

// turns is a store that is asked in turn with other requests, for those who look again and again.
type turns struct {
	ops.Store

	bounds *bounds
}

// Get is Store.Get.
func (t turns) Get(ctx context.Context, id task.ID) (*store.TaskInfo, error) {
	done, err := t.bounds.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return t.Store.Get(ctx, id)
}
