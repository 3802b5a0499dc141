package chunk

import (
	"context"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// inOrder brings the obstacles into the order of the key. Mostly they have it. Ranges that an operator has brought back after a pass had planned
// them again come first, from wherever they are. It returns false where there are so many of these that the look has no others.
func (w *walk) inOrder(ctx context.Context) (bool, error) {
	back := 0
	for back < len(w.left) && w.left[back].Pass < w.look.Whole {
		back++
	}
	if back == 0 {
		return true, nil
	}
	if w.look.More && back == len(w.left) {
		w.short = true
		return false, nil
	}
	began := time.Now()
	ordered, err := w.sorted(ctx)
	if err != nil {
		return false, err
	}
	w.cost += time.Since(began)
	w.began = time.Now()
	if w.look.More { // those that the look has not are behind the last of the others
		last := w.left[len(w.left)-1].ID
		ordered = ordered[:slices.IndexFunc(ordered, func(o store.ChunkObstacle) bool { return o.ID == last })+1]
	}
	w.left = ordered
	return true, nil
}

// sorted returns the obstacles by where they begin, those at the beginning of the table first; those that begin together as they are.
func (w *walk) sorted(ctx context.Context) ([]store.ChunkObstacle, error) {
	var ordered, others []store.ChunkObstacle
	var keys []Key
	for _, o := range w.left {
		if o.Range.After == nil {
			ordered = append(ordered, o)
			continue
		}
		others, keys = append(others, o), append(keys, *o.Range.After)
	}
	places, err := w.src.Order(ctx, keys)
	for _, n := range places {
		ordered = append(ordered, others[n])
	}
	return ordered, err
}

// untilNext ends a range that is to be planned again where the next obstacle begins, if that is in it. left: something of it is left. known is
// false where it takes another look to say.
func (w *walk) untilNext(ctx context.Context, r *Range) (left, known bool, err error) {
	if len(w.left) == 1 {
		w.short = w.look.More && len(w.items) == 0
		return true, !w.look.More, nil
	}
	next := w.left[1].Range.After
	switch {
	case same(next, r.Through):
		return true, true, nil
	case next == nil: // both begin with the table
		return false, true, nil
	}
	if n, err := w.src.Compare(ctx, *next, *r.Through); err != nil || n >= 0 {
		return true, err == nil, err
	}
	if r.After != nil {
		if n, err := w.src.Compare(ctx, *r.After, *next); err != nil || n >= 0 {
			return false, err == nil, err
		}
	}
	r.Through = next
	return true, true, nil
}
