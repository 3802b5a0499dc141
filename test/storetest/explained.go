package storetest

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// explainsAtOnce is how many tasks are explained before a claim of a random history.
const explainsAtOnce = 8

// explained is a waiting task with the reasons for which it does not start, as far as the store is concerned: agents know which types are
// paused and which targets are out of reach, and which of them have slots.
type explained struct {
	store.Situation

	bars []ops.ReasonKind // what keeps a claim from it
}

// explain explains waiting tasks, so many at most, the first of which is at that place; -1: all.
func explain(ctx context.Context, t testing.TB, h Harness, first, most int) (all []explained) {
	x, ok := h.(ops.Explainer)
	if !ok { // the model, which is compared with itself
		return nil
	}
	waiting, err := h.List(ctx, store.TaskFilter{
		States: []task.State{task.StatePending, task.StateRetryPending, task.StateRollbackPending}, Limit: 1000,
	})
	require.NoError(t, err)
	n := min(most, len(waiting))
	if first < 0 {
		first, n = 0, len(waiting)
	}
	for i := range n {
		w, err := x.Situation(ctx, waiting[(first+i)%len(waiting)].ID)
		require.NoError(t, err)
		if w.Task.Follows != 0 {
			continue
		}
		e := ops.Why(w, nil)
		found := explained{Situation: *w}
		for _, r := range append([]ops.Reason{e.Reason}, e.Also...) {
			switch r.Kind {
			case ops.WhyPaused, ops.WhyUndeclared, ops.WhyRegion, ops.WhyCordoned, ops.WhyBreaker, ops.WhySlots, ops.WhyAhead, ops.WhyStarting:
			default:
				found.bars = append(found.bars, r.Kind)
			}
		}
		all = append(all, found)
	}
	return all
}

// agrees asserts that a claim took no task that something was said to keep from starting, and, where it came back with less than it wanted and
// was not cut, each other one that it was for.
func agrees(t testing.TB, all []explained, c store.Claim, got []task.Task) {
	for _, x := range all {
		row := x.Task
		taken := slices.ContainsFunc(got, func(g task.Task) bool { return g.ID == row.ID })
		if len(x.bars) > 0 {
			require.False(t, taken, "task %d was claimed, in spite of %v: %+v", row.ID, x.bars, *row)
			continue
		}
		if !taken && !*c.Cut && x.claimable(c, got) {
			require.Fail(t, "nothing was said to be in the way of a task, and no claim took it", "%+v, limit %+v, by %+v", *row, x.Limit, c.Wants)
		}
	}
}

// claimable reports whether a claim with those rows must have taken a row, too, that may start: it wanted more of its class, and no row that it
// took has its lock, its turn, or the last place of its limit. What tenants and rates leave room for is not looked at.
func (x *explained) claimable(c store.Claim, got []task.Task) bool {
	row, l := x.Task, x.Limit
	if l != nil && (l.Rate > 0 || l.Tenant.Rate > 0 || l.Tenant.Most > 0) || row.Region != "" && !row.Spilled && row.Region != c.Region {
		return false
	}
	rivals, same := false, 0
	for i := range got {
		g := &got[i]
		rivals = rivals || row.Lock != "" && g.Lock == row.Lock || row.Sequence != "" && g.Type == row.Type && g.Sequence == row.Sequence
		if g.Type != row.Type {
			continue
		}
		if g.Phase() == row.State.Phase() {
			same++
		}
		rivals = rivals || l != nil && l.Most > 0 // it may have got the last place
	}
	return !rivals && slices.ContainsFunc(c.Wants, func(w store.Want) bool {
		return w.Type == row.Type && w.Phase == row.State.Phase() && same < w.N
	})
}
