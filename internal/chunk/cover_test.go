package chunk_test

import (
	"context"
	"fmt"

	"github.com/leasehold/leasehold/internal/chunk"
)

// Cover checks that the ranges of a pass, in their order, lie one behind another: none overlaps, and none is missing. The zero value
// checks a pass that begins with the table.
type Cover struct {
	From *chunk.Key // where the pass began
	// Compare compares keys, to prove that each range ends behind its begin; nil: the order is not checked.
	Compare func(ctx context.Context, a, b chunk.Key) (int, error)

	at     *chunk.Key
	ranges int
}

// CoverError is a range that does not continue the one before.
type CoverError struct {
	Range   chunk.Range
	Problem string
}

func (e *CoverError) Error() string {
	return fmt.Sprintf("range (%s, %s]: %s", bound(e.Range.After), bound(e.Range.Through), e.Problem)
}

// Add checks the next range. A *CoverError says what is wrong with it.
func (c *Cover) Add(ctx context.Context, r chunk.Range) error {
	at := c.End()
	switch {
	case r.Through == nil:
		return &CoverError{Range: r, Problem: "it has no end"}
	case bound(r.After) != bound(at):
		return &CoverError{Range: r, Problem: "the one before ends with " + bound(at) + ": there is a gap or an overlap"}
	case r.After != nil && *r.After == *r.Through:
		return &CoverError{Range: r, Problem: "it is empty"}
	}
	if c.Compare != nil && r.After != nil {
		n, err := c.Compare(ctx, *r.After, *r.Through)
		if err != nil {
			return err
		}
		if n >= 0 {
			return &CoverError{Range: r, Problem: "it ends before it begins"}
		}
	}
	c.at = r.Through
	c.ranges++
	return nil
}

// End is how far the ranges reach.
func (c *Cover) End() *chunk.Key {
	if c.ranges == 0 {
		return c.From
	}
	return c.at
}

// Ranges is how many there were.
func (c *Cover) Ranges() int { return c.ranges }

// bound is a bound in an error.
func bound(k *chunk.Key) string {
	if k == nil {
		return "none"
	}
	return fmt.Sprintf("%q", string(*k))
}
