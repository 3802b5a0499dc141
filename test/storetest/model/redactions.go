package model

import (
	"context"
	"maps"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// noteRedactions notes what a configuration masks that a session has just loaded.
func (s *Store) noteRedactions(session task.Session, a store.Agent) {
	if row := s.agents[session]; row != nil && maps.EqualFunc(row.Redact, a.Redact, slices.Equal) {
		return
	}
	for _, typ := range a.Types {
		names, masks := a.Redact[typ]
		if _, had := s.redactions[typ]; masks || had {
			s.redactions[typ] = names
		}
	}
}

// Redactions returns the members that are masked where documents are shown, by row type: those of the configuration that was loaded
// last, and those that present agents declare.
func (s *Store) Redactions(ctx context.Context) (map[string][]string, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	all := map[string][]string{}
	add := func(of map[string][]string) {
		for typ, names := range of {
			if len(names) > 0 {
				all[typ] = slices.Compact(slices.Sorted(slices.Values(slices.Concat(all[typ], names))))
			}
		}
	}
	add(s.redactions)
	for _, a := range s.agents {
		if a.PresentUntil.After(now) {
			add(a.Redact)
		}
	}
	return all, nil
}
