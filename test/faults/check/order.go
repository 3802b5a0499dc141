package check

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// OrderKept says: of a type that runs one at a time, the rows of one transaction start on each agent in the order of
// priority (higher first), due time and id.
//
// It must hold because a claim takes due rows in that order, and an agent starts what it claimed as it came.
//
// Exempt says: rows that were claimed more than once, because a released row has lost its place; rows that may not have
// been due when the other was claimed. And where the network, the server or an agent was broken when the other was
// claimed, a claim that was never committed may have kept the row locked, which others pass over.
const OrderKept Name = "OrderKept"

// claimFades is how long the locks of a claim may last that came to nothing.
const claimFades = 10 * time.Second

// once is a row's only attempt.
type once struct {
	*attempt
	enqueued *history.Enqueued
}

func orderKept(x *index, f *found) {
	type group struct{ cohort, kind, who string }
	groups := make(map[group][]once)
	for _, s := range x.records {
		e := s.enqueued
		if e == nil || e.Cohort == "" || !s.finished() || s.row.Fence != 2 || len(s.attempts) != 1 {
			continue
		}
		a := s.attempts[0]
		if a.start == nil || a.fence != 1 || !a.kind.Ordered {
			continue
		}
		g := group{e.Cohort, e.Kind, a.who}
		groups[g] = append(groups[g], once{a, e})
	}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b group) int {
		return cmp.Or(cmp.Compare(a.cohort, b.cohort), cmp.Compare(a.kind, b.kind), cmp.Compare(a.who, b.who))
	})
	for _, k := range keys {
		x.inspectOrder(groups[k], f)
	}
}

// inspectOrder looks at the rows of one transaction that one agent ran.
func (x *index) inspectOrder(rows []once, f *found) {
	slices.SortStableFunc(rows, func(a, b once) int { return cmp.Compare(a.start.At, b.start.At) })
	var top *once // of those before, the last one in the order
	for i := range rows {
		row := &rows[i]
		if top != nil && inOrder(row, top) < 0 && x.available(row, top) {
			f.add(OrderKept, row.start.At, row.id, "it started on %s after task %d (priority %d before %d, due after %s before %s)",
				row.who, top.id, row.enqueued.Priority, top.enqueued.Priority, row.enqueued.RunAt, top.enqueued.RunAt)
			f.all[len(f.all)-1].IDs = []int64{row.id, top.id}
		}
		if top == nil || inOrder(row, top) > 0 {
			top = row
		}
	}
}

// inOrder compares rows as a claim does.
func inOrder(a, b *once) int {
	return cmp.Or(
		cmp.Compare(b.enqueued.Priority, a.enqueued.Priority), cmp.Compare(a.enqueued.RunAt, b.enqueued.RunAt), cmp.Compare(a.id, b.id))
}

// available reports whether a row could be claimed when the other one was.
func (x *index) available(row, other *once) bool {
	claimed := span{other.start.At - x.startsWithin(other.attempt), other.start.At}
	if e := row.enqueued; e.RunAt > 0 {
		if e.At+e.RunAt > claimed.from || x.weather.any(span{e.At, other.start.At}, ofClocks) {
			return false
		}
	}
	claimed.from -= claimFades
	for _, a := range x.agents {
		if a.killed >= claimed.from && a.killed <= claimed.to+obituary {
			return false
		}
	}
	return !x.agent(other.who).shaken(claimed) && !x.weather.any(claimed, ofNetwork, ofServer, ofAgents)
}
