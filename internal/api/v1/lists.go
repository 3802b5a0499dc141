package v1

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// agentPage is a page of agents.
type agentPage struct {
	Agents []store.AgentInfo `json:"agents"`
	Next   string            `json:"next,omitempty"`
}

func (a *API) listAgents(c *call) (any, error) {
	q := c.query
	all, before, limit := q.flag("all"), q.number("before", maxID), q.limit()
	if err := q.end(); err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	list, err := s.ListAgents(c.ctx, all)
	if err != nil {
		return nil, err
	}
	list, more := newest(list, func(i store.AgentInfo) int64 { return int64(i.Session) }, before, limit)
	p := agentPage{Agents: list}
	if more {
		p.Next = c.next("before", strconv.FormatInt(int64(list[len(list)-1].Session), 10))
	}
	return p, nil
}

// newest is a page of a list that the store gives as a whole: by number, the highest first, those below before.
func newest[T any](list []T, number func(T) int64, before int64, limit int) (page []T, more bool) {
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(number(b), number(a)) })
	if before > 0 {
		list = slices.DeleteFunc(list, func(v T) bool { return number(v) >= before })
	}
	return orNone(list[:min(limit, len(list))]), len(list) > limit
}

// named is a page of a list that the store gives as a whole: by name, from that one on. next is where the page after it begins; "":
// there is none.
func named[T any](list []T, name func(T) string, from string, limit int) (page []T, next string) {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	list = slices.DeleteFunc(list, func(v T) bool { return name(v) < from })
	if len(list) > limit {
		next = name(list[limit])
	}
	return orNone(list[:min(limit, len(list))]), next
}

// orphanPage is a page of types.
type orphanPage struct {
	Orphans []store.OrphanType `json:"orphans"`
	Capped  bool               `json:"capped,omitempty"` // there may be more types than were looked at
	Next    string             `json:"next,omitempty"`
}

func (a *API) listOrphans(c *call) (any, error) {
	capped := false
	read := func(s Store, ctx context.Context) ([]store.OrphanType, error) {
		all, err := s.Orphans(ctx)
		capped = all.More
		return all.List, err
	}
	list, next, err := pageOfTypes(c, read, func(o store.OrphanType) string { return o.Type })
	return noneOf(orphanPage{list, capped, next}, err)
}

// pausePage is a page of types.
type pausePage struct {
	Pauses []store.TypePause `json:"pauses"`
	Next   string            `json:"next,omitempty"`
}

func (a *API) listPauses(c *call) (any, error) {
	list, next, err := pageOfTypes(c, Store.Pauses, func(p store.TypePause) string { return p.Type })
	return noneOf(pausePage{list, next}, err)
}

// regionPage is a page of regions.
type regionPage struct {
	Regions []ops.RegionReport `json:"regions"`
	Next    string             `json:"next,omitempty"`
}

func (a *API) listRegions(c *call) (any, error) {
	read := func(s Store, ctx context.Context) ([]ops.RegionReport, error) { return ops.ReadRegions(ctx, s) }
	list, next, err := pageOfTypes(c, read, func(r ops.RegionReport) string { return r.Region })
	return noneOf(regionPage{list, next}, err)
}

// pageOfTypes reads a page of what the store lists by type, or by region, as a whole, and the link to the next; "": there is none.
func pageOfTypes[T any](c *call, read func(Store, context.Context) ([]T, error), typ func(T) string) (page []T, next string, err error) {
	from, limit := c.query.text("from"), c.query.limit()
	if err := c.query.end(); err != nil {
		return nil, "", err
	}
	s, err := c.work()
	if err != nil {
		return nil, "", err
	}
	list, err := read(s, c.ctx)
	if err != nil {
		return nil, "", err
	}
	if page, next = named(list, typ, from, limit); next != "" {
		next = c.next("from", next)
	}
	return page, next, nil
}

// definitionPage is a page of definitions.
type definitionPage struct {
	Declarations []ops.Definition `json:"declarations"`
	Next         string           `json:"next,omitempty"`
}

func (a *API) listDeclarations(c *call) (any, error) {
	q := c.query
	kind, all, before, limit := q.text("kind"), q.flag("all"), q.number("before", maxID), q.limit()
	if err := checkKind(kind); err != nil && kind != "" {
		return nil, err
	}
	if err := q.end(); err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	list, err := ops.Definitions(c.ctx, s, kind, all)
	if err != nil {
		return nil, err
	}
	list, more := newest(list, func(d ops.Definition) int64 { return d.Number }, before, limit)
	for i := range list {
		list[i].Sessions = orNone[task.Session](list[i].Sessions)
	}
	p := definitionPage{Declarations: list}
	if more {
		p.Next = c.next("before", strconv.FormatInt(list[len(list)-1].Number, 10))
	}
	return p, nil
}

// checkKind refuses a kind of block that is never declared.
func checkKind(kind string) error {
	if kind != "task" && kind != "schedule" && kind != "chunks" {
		return bad(http.StatusBadRequest, "kind: use task, schedule or chunks")
	}
	return nil
}

func (a *API) getDeclaration(c *call) (any, error) {
	kind := c.r.PathValue("kind")
	if err := checkKind(kind); err != nil {
		return nil, err
	}
	name, err := c.text("name")
	if err != nil {
		return nil, err
	}
	limit := c.query.limit()
	if err := c.query.end(); err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	list, err := ops.DefinitionHistory(c.ctx, s, kind, name, limit)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", kind, name, err)
	}
	for i := range list {
		list[i].Sessions = orNone[task.Session](list[i].Sessions)
	}
	return definitionPage{Declarations: list}, nil
}
