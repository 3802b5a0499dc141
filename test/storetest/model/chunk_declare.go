package model

import (
	"context"
	"maps"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// declaredChunk is a declaration of a chunk plan with all that was ever said of it.
type declaredChunk struct {
	store.ChunkDeclaration
	hash string
	by   map[task.Session]bool
}

// fits reports whether the plan may become what is declared.
func (d *declaredChunk) fits(p *ChunkPlan) bool {
	return d.Spec.Task == p.Task && d.Spec.Table == p.Table && d.Spec.Key == p.Key
}

// DeclareChunks notes what a session declares, and puts the newest declarations in force.
func (s *Store) DeclareChunks(
	ctx context.Context, session task.Session, list []store.ChunkDeclaration,
) (did store.DeclaredChunks, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return did, err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return did, err
	}
	if did.Known = s.agents[session] != nil; !did.Known {
		return did, nil
	}
	for _, d := range s.chunkDeclarations {
		maps.DeleteFunc(d.by, func(by task.Session, _ bool) bool { return by == session || s.agents[by] == nil })
	}
	for _, one := range list {
		_, hash := one.Text()
		at := slices.IndexFunc(s.chunkDeclarations, func(d *declaredChunk) bool { return d.Spec.Name == one.Spec.Name && d.hash == hash })
		if at < 0 {
			at = len(s.chunkDeclarations)
			s.chunkDeclarations = append(s.chunkDeclarations, &declaredChunk{one, hash, map[task.Session]bool{}})
		}
		s.chunkDeclarations[at].by[session] = true
	}
	newest := map[string]int{}
	for i, d := range s.chunkDeclarations {
		here := func(by task.Session) bool { return s.agents[by] != nil && now.Before(s.agents[by].PresentUntil) }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(d.by)), here) {
			continue
		}
		if s.plans[d.Spec.Name] == nil {
			s.plans[d.Spec.Name] = newChunkPlan(d.Spec, now.UnixMicro()<<10, i+1)
		}
		if d.fits(s.plans[d.Spec.Name]) {
			newest[d.Spec.Name] = i + 1
		}
	}
	for name, number := range newest {
		if p := s.plans[name]; p.Declared != number {
			p.ChunkSpec, p.Declared = s.chunkDeclarations[number-1].Spec, number
			p.State.Version++
			p.State.Size, p.State.Over = 0, p.State.Over && p.Follow == 0
		}
	}
	for i, d := range s.chunkDeclarations {
		p := s.plans[d.Spec.Name]
		switch {
		case !d.by[session] || p == nil: // nobody present declares it: the session has been silent for long
		case p.Declared == i+1:
			did.InForce = append(did.InForce, d.Spec.Name)
		case !d.fits(p):
			did.Refused = append(did.Refused, d.Spec.Name)
		}
	}
	slices.Sort(did.InForce)
	slices.Sort(did.Refused)
	return did, s.fail(afterSettle)
}
