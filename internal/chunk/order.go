package chunk

import (
	"context"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
)

// inOrder brings the obstacles into the order of the key. Mostly they have it. Ranges that an operator has brought back after a pass had planned
// them again come first, from wherever they are: each finds its place by comparing keys, for which the walk has to know all
// obstacles. It returns false where it does not.
func (w *walk) inOrder(ctx context.Context) (bool, error) {
	back := 0
	for back < len(w.left) && w.left[back].Pass < w.look.Whole {
		back++
	}
	if back == 0 {
		return true, nil
	}
	if w.look.More {
		w.short = true
		return false, nil
	}
	w.mixed = true
	ordered := slices.Clone(w.left[back:])
	for _, o := range w.left[:back] {
		var err error
		at, _ := slices.BinarySearchFunc(ordered, o.Range.After, func(other store.ChunkObstacle, after *Key) int {
			n, e := w.compare(ctx, other.Range.After, after)
			if e != nil {
				err = e
			}
			return n
		})
		if err != nil {
			return false, err
		}
		ordered = slices.Insert(ordered, at, o)
	}
	w.left = ordered
	return true, nil
}

// compare compares where two ranges begin; nil is before all keys.
func (w *walk) compare(ctx context.Context, a, b *Key) (int, error) {
	switch {
	case same(a, b):
		return 0, nil
	case a == nil:
		return -1, nil
	case b == nil:
		return 1, nil
	}
	return w.src.Compare(ctx, *a, *b)
}

// untilNext ends a range where the next obstacle begins, if that is in it. It returns false where nothing is left of it.
func (w *walk) untilNext(ctx context.Context, r *Range) (bool, error) {
	if !w.mixed || len(w.left) < 2 {
		return true, nil
	}
	next := w.left[1].Range.After
	if n, err := w.compare(ctx, next, r.Through); err != nil || n >= 0 {
		return true, err
	}
	n, err := w.compare(ctx, r.After, next)
	r.Through = next
	return n < 0, err
}
