package v1

import (
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

func (a *API) chunkRoutes() []route {
	return []route{
		{"GET /chunks", a.listChunks},
		{"GET /chunks/{name}", a.getChunks},
		{"GET /chunks/{name}/verify", a.verifyChunks},
		{"POST /chunks/{name}/pause", a.pauseChunks(true)},
		{"POST /chunks/{name}/resume", a.pauseChunks(false)},
		{"POST /chunks/{name}/cancel", a.changeChunks(ops.VerbCancel)},
		{"POST /chunks/{name}/retry", a.changeChunks(ops.VerbRetry)},
		{"POST /chunks/{name}/rollback", a.changeChunks(ops.VerbRollback)},
	}
}

// chunkPage is a page of plans.
type chunkPage struct {
	Chunks []store.ChunkPlanInfo `json:"chunks"`
	Next   string                `json:"next,omitempty"`
}

func (a *API) listChunks(c *call) (any, error) {
	f := store.ChunkPlanFilter{From: c.query.text("from"), Limit: c.query.limit()}
	if err := c.query.end(); err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	limit := f.Limit
	f.Limit++ // the first of the next page
	list, err := s.ListChunks(c.ctx, f)
	if err != nil {
		return nil, err
	}
	p := chunkPage{Chunks: orNone(list)}
	if len(list) > limit {
		p.Chunks, p.Next = list[:limit], c.next("from", list[limit].Name)
	}
	return p, nil
}

func (a *API) getChunks(c *call) (any, error) {
	name, err := c.text("name")
	limit := c.query.limit()
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
	return noneOf(ops.ShowChunks(c.ctx, s, name, limit))
}
