package model

import (
	"maps"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// lane is what one want claims from.
type lane struct {
	typ    string
	phase  task.Phase
	region string
}

// turnAt is whose turn it is in a lane.
type turnAt struct {
	tenant string
	credit int // rows that are left of the turn; 0: the next one's begins
}

// Prefer has claims take these rows first, where that is a choice: which tenants' turns come first is a store's own. Those of one tenant
// are taken in their order all the same. nil: none.
func (s *Store) Prefer(ids map[task.ID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.preferred = ids
}

// byTurns returns rows, which are in order, in the order in which tenants take turns, and notes where the turns go on after n of them.
func (s *Store) byTurns(rows []*Row, of lane, w store.Want, n int) []*Row {
	queues := map[string][]*Row{}
	for _, r := range rows {
		queues[r.Tenant] = append(queues[r.Tenant], r)
	}
	if len(queues) == 0 || len(queues) == 1 && queues[""] != nil {
		return rows
	}
	at := s.tenantTurns[of]
	out := make([]*Row, 0, len(rows))
	pop := func(tenant string) {
		out = append(out, queues[tenant][0])
		if queues[tenant] = queues[tenant][1:]; len(queues[tenant]) == 0 {
			delete(queues, tenant)
		}
	}
	for len(queues) > 0 {
		if len(out) == n {
			s.tenantTurns[of] = at
		}
		names := slices.Sorted(maps.Keys(queues))
		if i := slices.IndexFunc(names, func(name string) bool { return s.preferred[queues[name][0].ID] }); i >= 0 {
			pop(names[i])
			continue
		}
		if at.credit <= 0 || queues[at.tenant] == nil {
			i := slices.IndexFunc(names, func(name string) bool { return name > at.tenant })
			at.tenant = names[max(i, 0)]
			at.credit = max(w.Weights[at.tenant], 1)
		}
		at.credit--
		pop(at.tenant)
	}
	if len(out) <= n {
		s.tenantTurns[of] = at
	}
	return out
}
