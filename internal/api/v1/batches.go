package v1

import (
	"strconv"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func (a *API) batchRoutes() []route {
	return []route{
		{"GET /batches", a.listBatches},
		{"GET /batches/{id}", a.getBatch},
		{"POST /batches", a.createBatch},
		{"POST /batches/{id}/seal", a.sealBatch},
		{"POST /batches/{id}/cancel", a.changeBatch(ops.VerbCancel)},
		{"POST /batches/{id}/retry", a.changeBatch(ops.VerbRetry)},
		{"POST /batches/{id}/rollback", a.changeBatch(ops.VerbRollback)},
	}
}

// batchPage is a page of batches.
type batchPage struct {
	Batches []store.BatchInfo `json:"batches"`
	Next    string            `json:"next,omitempty"`
}

func (a *API) listBatches(c *call) (any, error) {
	q := c.query
	states, err := ops.ParseBatchStates(q.list("state"))
	if err != nil {
		return nil, err
	}
	f := store.BatchFilter{States: states, Name: q.text("name"), Before: task.BatchID(q.number("before", maxID)), Limit: q.limit()}
	if err := q.end(); err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	limit := f.Limit
	f.Limit++ // whether there are more
	list, err := s.ListBatches(c.ctx, f)
	if err != nil {
		return nil, err
	}
	p := batchPage{Batches: orNone(list)}
	if len(list) > limit {
		p.Batches = list[:limit]
		p.Next = c.next("before", strconv.FormatInt(int64(list[limit-1].ID), 10))
	}
	return p, nil
}

func (a *API) getBatch(c *call) (any, error) {
	id, err := c.batchID()
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
	return noneOf(ops.ReadBatch(c.ctx, s, id))
}

// orNone is a list that JSON has as [] where it is empty.
func orNone[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// noneOf is an answer, or none where there is an error.
func noneOf[T any](v T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}
