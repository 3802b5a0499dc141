package chunk_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/store"
)

func TestTheCoverOfAPassIsExact(t *testing.T) {
	k := func(s string) *chunk.Key { return new(chunk.Key(s)) }
	for _, c := range []struct {
		name  string
		list  []chunk.Range
		error string
	}{
		{"exact", []chunk.Range{{Through: k("10")}, {After: k("10"), Through: k("20")}}, ""},
		{"gap", []chunk.Range{{Through: k("10")}, {After: k("11"), Through: k("20")}}, "gap"},
		{"overlap", []chunk.Range{{Through: k("10")}, {After: k("9"), Through: k("20")}}, "overlap"},
		{"twice", []chunk.Range{{Through: k("10")}, {Through: k("10")}}, "overlap"},
		{"begin", []chunk.Range{{After: k("1"), Through: k("10")}}, "gap"},
		{"open", []chunk.Range{{Through: k("10")}, {After: k("10")}}, "no end"},
		{"empty", []chunk.Range{{Through: k("10")}, {After: k("10"), Through: k("10")}}, "empty"},
		{"backwards", []chunk.Range{{Through: k("10")}, {After: k("10"), Through: k("9")}}, "before it begins"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cover := Cover{Compare: (&ints{}).Compare}
			var err error
			for _, r := range c.list {
				if err = cover.Add(t.Context(), r); err != nil {
					break
				}
			}
			if c.error == "" {
				require.NoError(t, err)
				require.Equal(t, k("20"), cover.End())
				require.Equal(t, 2, cover.Ranges())
				return
			}
			var bad *CoverError
			require.ErrorAs(t, err, &bad)
			require.ErrorContains(t, err, c.error)
		})
	}
}

func TestSizesFollowTheTimeThatChunksTake(t *testing.T) {
	spec := store.ChunkSize{Target: 5 * time.Second, Start: 1000, Min: 100, Max: 50_000}
	size, perRow := 0, 0.0
	step := func(rate float64) int { // rows a second
		rows := int64(max(size, 1) * 10)
		size, perRow = chunk.NextSize(spec, size, perRow, rows, time.Duration(float64(rows)/rate*float64(time.Second)))
		return size
	}
	require.Equal(t, 2000, step(1e9), "at most twice as many")
	require.Equal(t, 4000, step(1e9))
	for range 30 {
		step(1e9)
	}
	require.Equal(t, 50_000, size, "bounded")
	require.Equal(t, 25_000, step(1), "at least half as many")
	for range 30 {
		step(1)
	}
	require.Equal(t, 100, size, "bounded")
	for range 60 {
		step(400)
	}
	require.InDelta(t, 2000, size, 100, "the target")
	one, _ := chunk.NextSize(spec, size, perRow, int64(size), 10*time.Second)
	require.Greater(t, one, size/2, "smoothed: one slow chunk changes less than all")
	same, rate := chunk.NextSize(spec, 700, 0.5, 0, 0)
	require.Equal(t, 700, same)
	require.InDelta(t, 0.5, rate, 0)
	fixed, _ := chunk.NextSize(store.ChunkSize{Start: 300}, 0, 0, 1000, time.Hour)
	require.Equal(t, 300, fixed)
}

func TestRowsThatAreLeftAreCounted(t *testing.T) {
	s := &ints{todo: map[int]bool{}}
	for k := range 200_000 {
		s.todo[k+1] = k >= 70_000
	}
	for _, s.slice = range []int{0, 30_000} {
		left, err := chunk.CountLeft(t.Context(), s, new(chunk.Key("199990")), 1_000_000)
		require.NoError(t, err)
		require.Equal(t, chunk.Left{Rows: 129_990, First: new(chunk.Key("70001"))}, left)
	}
}

func TestSizesOfAPassAreNotedAsTheyChange(t *testing.T) {
	sizes := chunk.NoteSize(nil, 1000)
	sizes = chunk.NoteSize(sizes, 1100)
	sizes = chunk.NoteSize(sizes, 1125)
	sizes = chunk.NoteSize(sizes, 900)
	require.Equal(t, []int{1000, 1125, 900}, sizes)
	for n := range 100 {
		sizes = chunk.NoteSize(sizes, 1000<<(n%2))
	}
	require.Len(t, sizes, store.ChunkSizes)
	require.Equal(t, 2000, sizes[store.ChunkSizes-1])
}
