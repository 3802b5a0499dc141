package model

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// declaredBy returns the present sessions with workers that declare a type, by name of their agents.
func (s *Store) declaredBy(typ string, now time.Time) (names []string) {
	for session, a := range s.agents {
		if s.present(session, now) && a.Workers > 0 && slices.Contains(a.Types, typ) {
			names = append(names, a.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Orphans lists the types of waiting rows that no present agent with workers declares.
func (s *Store) Orphans(ctx context.Context) ([]store.OrphanType, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	of := map[string]*store.OrphanType{}
	for _, r := range s.live {
		if of[r.Type] == nil {
			of[r.Type] = &store.OrphanType{Type: r.Type}
		}
		o := of[r.Type]
		if r.State.Running() {
			o.Running++
			continue
		}
		o.Waiting++
		if o.Oldest.IsZero() || r.CreatedAt.Before(o.Oldest) {
			o.Oldest = r.CreatedAt
		}
	}
	var list []store.OrphanType
	for _, o := range of {
		if o.Waiting == 0 || len(s.declaredBy(o.Type, now)) > 0 {
			continue
		}
		if b := s.lastDeclared(o.Type); b != nil {
			at := b.LastAt
			o.DeclaredAt, o.DeclaredBy, o.DeclaredAs = &at, b.LastBy, b.Name
		}
		list = append(list, *o)
	}
	slices.SortFunc(list, func(a, b store.OrphanType) int { return cmp.Compare(a.Type, b.Type) })
	return list, nil
}

// lastDeclared returns the task type of a name, or with it as an alias, that was loaded last; nil: there is none.
func (s *Store) lastDeclared(typ string) (last *declaredBlock) {
	name, _ := json.Marshal(typ)
	for _, b := range s.blocks {
		if b.Kind == "task" && (b.Name == typ || strings.Contains(b.Fields["aliases"], string(name))) &&
			(last == nil || !b.LastAt.Before(last.LastAt)) {
			last = b
		}
	}
	return last
}
