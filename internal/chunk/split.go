package chunk

import "context"

// splitAfter is how often a chunk stalls or times out before it is split.
const splitAfter = 2

// ShouldSplit reports whether a chunk is split in place of one more attempt: it stalled or timed out that often.
func ShouldSplit(stalledOrTimedOut int) bool { return stalledOrTimedOut >= splitAfter }

// Half is a part of a chunk that was split.
type Half struct {
	Range Range
	Rows  int // about
}

// Halves splits a range of about that many rows at its middle key: the two cover exactly what it did. It returns false where there
// is no key strictly inside. An error, such as a source out of reach, means an ordinary retry.
func Halves(ctx context.Context, src Source, r Range, rows int) (halves [2]Half, ok bool, err error) {
	k, ok, err := src.Middle(ctx, r, rows)
	if err != nil || !ok {
		return halves, false, err
	}
	low := max(rows/2, 1)
	return [2]Half{
		{Range: Range{After: r.After, Through: &k}, Rows: low},
		{Range: Range{After: &k, Through: r.Through}, Rows: max(rows-low, 1)},
	}, true, nil
}
