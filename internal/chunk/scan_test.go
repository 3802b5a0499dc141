package chunk_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/chunk"
)

// numbers is a table of the keys 1 to n, of which the condition finds some. A statement that reads more than patience rows is slow.
type numbers struct {
	n, patience int
	finds       func(int) bool
	read        int // rows, by all statements
	looks       int
}

func (r *numbers) from(after, limit *chunk.Key) (low, high int) {
	high = r.n
	if after != nil {
		low, _ = strconv.Atoi(string(*after))
	}
	if limit != nil {
		high, _ = strconv.Atoi(string(*limit))
	}
	return low, high
}

func (r *numbers) Look(_ context.Context, q chunk.Query) (f chunk.Found, err error) {
	low, high := r.from(q.After, q.Limit)
	r.looks++
	rows := 0
	for i := low + 1; i <= high && len(f.Through) < q.Most; i++ {
		if r.read++; i-low > r.patience {
			return chunk.Found{}, fmt.Errorf("look: %w", chunk.ErrSlow)
		}
		if !r.finds(i) {
			continue
		}
		rows++
		f.Rest, f.Rows = new(chunk.Key(strconv.Itoa(i))), rows
		if rows == q.Rows {
			f.Through, f.Rest, f.Rows, rows = append(f.Through, *f.Rest), nil, 0, 0
		}
	}
	return f, nil
}

func (r *numbers) Last(context.Context) (*chunk.Key, error) {
	return new(chunk.Key(strconv.Itoa(r.n))), nil
}

func (r *numbers) Nth(_ context.Context, after, limit *chunk.Key, n int) (*chunk.Key, error) {
	low, high := r.from(after, limit)
	if min(n, high-low) > 20*r.patience {
		return nil, chunk.ErrSlow
	}
	if low+n > high {
		return nil, nil //nolint:nilnil // there is no such row, as the interface says
	}
	return new(chunk.Key(strconv.Itoa(low + n))), nil
}

// scanAll cuts all there is, and returns the ends and rows of the ranges.
func scanAll(t *testing.T, s *chunk.Scan, n, most int) (ends, rows []int) {
	t.Helper()
	var from *chunk.Key
	for range 100_000 {
		cuts, err := s.Cut(t.Context(), from, nil, n, most)
		require.NoError(t, err)
		for _, c := range cuts.Cuts {
			end, err := strconv.Atoi(string(c.Through))
			require.NoError(t, err)
			ends, rows, from = append(ends, end), append(rows, c.Rows), new(c.Through)
		}
		if cuts.Done {
			return ends, rows
		}
		if cuts.Seen != nil {
			from = cuts.Seen
		}
	}
	require.FailNow(t, "there is no end")
	return nil, nil
}

func TestFewRowsAmongManyAreFoundInSlices(t *testing.T) {
	for _, c := range []struct{ n, patience, every int }{
		{3_000_000, 20_000, 250_000}, {3_000_000, 20_000, 999}, {100_000, 600, 100_001}, {100_000, 600, 1}, {100_000, 1_000_000, 7},
	} {
		r := &numbers{n: c.n, patience: c.patience, finds: func(i int) bool { return i%c.every == 0 }}
		s := chunk.NewScan("t", "k", r)
		ends, rows := scanAll(t, s, 100, 8)
		at := 0
		for i, end := range ends {
			require.Equal(t, rows[i], end/c.every-at/c.every, "%+v", c)
			require.LessOrEqual(t, rows[i], 100)
			at = end
		}
		require.Equal(t, c.n/c.every, at/c.every, "%+v", c)
		require.Less(t, r.read, 4*c.n+20*c.patience, "each row is read a few times")
	}
}

func TestATableThatIsTooSlowIsAnError(t *testing.T) {
	r := &numbers{n: 10_000, patience: 10, finds: func(int) bool { return false }}
	_, err := chunk.NewScan("t", "k", r).Cut(t.Context(), nil, nil, 100, 8)
	require.ErrorIs(t, err, chunk.ErrSlow)
	require.Less(t, r.looks, 20)
}

func TestTheMiddleIsFoundWhereTheConditionIsSlow(t *testing.T) {
	r := &numbers{n: 10_000, patience: 100, finds: func(int) bool { return false }}
	k, ok, err := chunk.NewScan("t", "k", r).Middle(t.Context(), chunk.Range{Through: new(chunk.Key("2000"))}, 2000)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, chunk.Key("1000"), k)
}
