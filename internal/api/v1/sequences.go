package v1

import (
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

func (a *API) sequenceRoutes() []route {
	return []route{
		{"GET /sequences", a.listSequences},
		{"GET /sequences/{type}/{sequence}", a.getSequence},
		{"POST /sequences/{type}/{sequence}/skip", a.resolveSequence(false)},
		{"POST /sequences/{type}/{sequence}/retry", a.resolveSequence(true)},
		{"POST /sequences/{type}/{sequence}/cancel", a.cancelSequence},
	}
}

// sequencePage is a page of sequences.
type sequencePage struct {
	Sequences []store.SequenceInfo `json:"sequences"`
	Next      string               `json:"next,omitempty"`
}

func (a *API) listSequences(c *call) (any, error) {
	q := c.query
	f := store.SequenceFilter{Type: q.text("type"), FromType: q.text("from_type"), FromName: q.text("from"), Limit: q.limit()}
	if err := q.end(); err != nil {
		return nil, err
	}
	if f.FromType == "" {
		f.FromType = f.Type
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	limit := f.Limit
	f.Limit++ // the first of the next page
	all, err := s.ListSequences(c.ctx, f)
	if err != nil {
		return nil, err
	}
	p := sequencePage{Sequences: orNone(all.List)}
	if len(all.List) > limit {
		next := all.List[limit]
		p.Sequences, p.Next = all.List[:limit], c.next("from_type", next.Type, "from", next.Sequence)
	}
	return p, nil
}

// sequence reads the type and the name of a path.
func (c *call) sequence() (typ, name string, err error) {
	if typ, err = c.text("type"); err != nil {
		return "", "", err
	}
	name, err = c.text("sequence")
	return typ, name, err
}

func (a *API) getSequence(c *call) (any, error) {
	typ, name, err := c.sequence()
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
	return noneOf(ops.ShowSequence(c.ctx, s, typ, name))
}
