package chunk

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// walk plans the next ranges of a pass, from its cursor on. It goes around what earlier passes have left: their live chunks, and ranges
// that are held. A range that failed is planned again as it was, so that it is known how often. Each item begins where the one before
// ended, so together they leave no gap. Mostly no keys need to be compared: obstacles come in the order of the key, and each look at the
// table ends where the next obstacle begins.
type walk struct {
	src  Source
	look *store.ChunkLook
	size int
	room int // chunks that may still be planned

	left   []store.ChunkObstacle // not reached yet
	short  bool                  // the walk has to know more of them than this look has
	at     *Key                  // the end of the last item
	seen   *Key                  // from there on, up to where nothing is; nil: unknown
	began  time.Time
	items  []store.ChunkItem
	chunks int
	cost   time.Duration // for which the source was read
	vain   time.Duration // of that, what came behind the last chunk
}

// newWalk returns a walk from the cursor of a pass; nothing lies between that and seen.
func newWalk(look *store.ChunkLook, src Source, size int, seen *Key) *walk {
	w := &walk{
		src: src, look: look, size: size, room: min(look.Spec.Ahead-look.Live, batched), at: look.Plan.Cursor, seen: seen, began: time.Now(),
	}
	if look.Plan.Full { // else it begins behind all of them
		w.left = look.Obstacles
	}
	return w
}

// run plans until there is no room, the time is over, or the pass is at its end, which it reports.
func (w *walk) run(ctx context.Context) (ended bool, err error) {
	if known, err := w.inOrder(ctx); err != nil || !known {
		return false, err
	}
	for w.room > 0 && time.Since(w.began) < turnFor {
		if len(w.left) == 0 {
			if w.look.More && w.look.Plan.Full {
				return false, nil // the next look returns those that follow
			}
			return w.cut(ctx, nil)
		}
		if past, err := w.pass(ctx, &w.left[0]); err != nil || !past {
			return false, err
		}
		w.left = w.left[1:]
	}
	return false, nil
}

// pass plans what is before an obstacle, and goes past it. It returns false where it has not come that far.
func (w *walk) pass(ctx context.Context, o *store.ChunkObstacle) (past bool, err error) {
	r := o.Range
	if !same(w.at, r.After) {
		before, err := w.before(ctx, r)
		if err != nil {
			return false, err
		}
		switch before {
		case within: // an operator has brought back a range that was cut anew since
			r.After = w.at
		case above:
			return true, nil
		default:
			if all, err := w.cut(ctx, r.After); err != nil || !all {
				return false, err
			}
			if !same(w.at, r.After) { // there is nothing between
				w.add(store.ChunkItem{Kind: store.ChunkGap, Range: Range{After: w.at, Through: r.After}})
			}
			if w.room <= 0 {
				return false, nil
			}
		}
	}
	if o.State == store.ChunkLive || o.Failures >= store.ChunkHeldAfter {
		w.add(store.ChunkItem{Kind: store.ChunkSkip, Range: r, Rows: o.Rows, Obstacle: o})
		return true, nil
	}
	left, known, err := w.untilNext(ctx, &r)
	switch {
	case err != nil || !known:
		return false, err
	case !left:
		return true, nil
	}
	return w.again(ctx, o, r)
}

// position is where the walk is, as a range sees it.
type position int

const (
	below position = iota
	within
	above
)

// before compares where the walk is with a range that does not begin there.
func (w *walk) before(ctx context.Context, r Range) (position, error) {
	if w.at == nil {
		return below, nil
	}
	if r.After != nil {
		if n, err := w.src.Compare(ctx, *w.at, *r.After); err != nil || n < 0 {
			return below, err
		}
	}
	if n, err := w.src.Compare(ctx, *w.at, *r.Through); err != nil || n < 0 {
		return within, err
	}
	return above, nil
}

// again plans a range that failed once more, where it has rows left.
func (w *walk) again(ctx context.Context, o *store.ChunkObstacle, r Range) (past bool, err error) {
	cuts, err := w.read(ctx, w.from(), r.Through, max(o.Rows, w.size, 1), 1)
	switch {
	case err != nil:
		return false, err
	case len(cuts.Cuts) > 0:
		w.add(store.ChunkItem{Kind: store.ChunkInsert, Range: r, Rows: cuts.Cuts[0].Rows, Obstacle: o})
	case cuts.Done:
		w.add(store.ChunkItem{Kind: store.ChunkGap, Range: r, Obstacle: o})
	default:
		w.note(cuts.Seen)
		return false, nil
	}
	return true, nil
}

// from is where the next look begins.
func (w *walk) from() *Key {
	if w.seen != nil {
		return w.seen
	}
	return w.at
}

// cut plans ranges up to limit. It reports whether that is all there is.
func (w *walk) cut(ctx context.Context, limit *Key) (all bool, err error) {
	for w.room > 0 && time.Since(w.began) < turnFor {
		cuts, err := w.read(ctx, w.from(), limit, w.size, w.room)
		if err != nil {
			return false, err
		}
		for _, c := range cuts.Cuts {
			w.add(store.ChunkItem{Kind: store.ChunkInsert, Range: Range{After: w.at, Through: &c.Through}, Rows: c.Rows})
		}
		if cuts.Done {
			return true, nil
		}
		w.note(cuts.Seen)
		if len(cuts.Cuts) == 0 {
			return false, nil
		}
	}
	return false, nil
}

// read reads the source and measures how long that takes.
func (w *walk) read(ctx context.Context, after, limit *Key, n, most int) (Cuts, error) {
	began := time.Now()
	cuts, err := w.src.Cut(ctx, after, limit, n, most)
	took := time.Since(began)
	w.cost += took
	if w.vain += took; len(cuts.Cuts) > 0 {
		if w.vain = 0; cuts.Done { // it has read on behind the last chunk
			w.vain = took
		}
	}
	return cuts, err
}

// note keeps how far a look went in vain; a look that learnt nothing takes nothing away.
func (w *walk) note(seen *Key) {
	if seen != nil {
		w.seen = seen
	}
}

// add adds an item; the next begins where it ends.
func (w *walk) add(i store.ChunkItem) {
	w.items = append(w.items, i)
	w.at, w.seen = i.Range.Through, nil
	if i.Kind == store.ChunkInsert {
		w.chunks++
		w.room--
	}
}

// same reports whether two bounds are one: keys round-trip exactly, so their texts decide.
func same(a, b *Key) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
