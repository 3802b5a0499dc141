package chunk

import "context"

// Bounds of one step of CountLeft.
const (
	leftRange  = 10_000 // rows
	leftRanges = 8
)

// Left is what the condition of a source still finds.
type Left struct {
	Rows  int
	First *Key // the lowest key of them; nil: there are none
}

// CountLeft counts the rows up to a key that the condition of a source finds, in short statements, until it has counted most of them.
func CountLeft(ctx context.Context, src Source, through *Key, most int) (left Left, err error) {
	var after, from *Key
	for left.Rows < most {
		cuts, err := src.Cut(ctx, from, through, leftRange, leftRanges)
		if err != nil {
			return left, err
		}
		for _, c := range cuts.Cuts {
			if left.First == nil {
				if left.First, err = first(ctx, src, from, &c.Through); err != nil {
					return left, err
				}
			}
			// A cut does not count rows that share its last key.
			n, err := src.Count(ctx, Range{After: after, Through: &c.Through}, most-left.Rows)
			if err != nil {
				return left, err
			}
			left.Rows += n
			after = &c.Through
		}
		if cuts.Done {
			break
		}
		if from = cuts.Seen; from == nil {
			from = after
		}
	}
	return left, nil
}

// first returns the lowest key up to one, where there is one.
func first(ctx context.Context, src Source, after, through *Key) (*Key, error) {
	cuts, err := src.Cut(ctx, after, through, 1, 1)
	if err != nil || len(cuts.Cuts) == 0 {
		return nil, err
	}
	return &cuts.Cuts[0].Through, nil
}
