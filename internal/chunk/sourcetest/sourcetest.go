// Package sourcetest is what every source of chunks passes.
package sourcetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/chunk"
)

// Table is a table that a check needs: columns k, the key with an index on it, and status, an integer without one.
type Table struct {
	Kind string // integer, bigint, uuid, text or timestamp
	Rows []Row
}

// Row is a row; Key as the database reads it.
type Row struct {
	Key    string
	Status int
}

// Made is the table as a check sees it.
type Made struct {
	// Source returns a source of what where finds.
	Source func(where string) chunk.Source
	// Rows returns the keys of the rows in a range, in order, as an application reads them: with bounds from a payload.
	Rows func(r chunk.Range, where string) []string
	// Exec changes something.
	Exec func(text string)
}

// Run runs all checks.
func Run(t *testing.T, create func(t *testing.T, table Table) Made) {
	for _, kind := range []string{"integer", "bigint", "uuid", "text", "timestamp"} {
		t.Run(kind, func(t *testing.T) {
			t.Run("cover", func(t *testing.T) { cover(t, kind, create) })
			t.Run("equal", func(t *testing.T) { equal(t, kind, create) })
			t.Run("edges", func(t *testing.T) { edges(t, kind, create) })
			t.Run("compare", func(t *testing.T) { compare(t, kind, create) })
			t.Run("middle", func(t *testing.T) { middle(t, kind, create) })
		})
	}
	t.Run("empty", func(t *testing.T) { empty(t, create) })
	t.Run("grows", func(t *testing.T) { grows(t, create) })
	t.Run("count", func(t *testing.T) { count(t, create) })
}

// key is the i-th of many keys of a kind, in order, with gaps.
func key(kind string, i int) string {
	switch kind {
	case "integer":
		return fmt.Sprint(i*7 - 1000)
	case "bigint":
		return fmt.Sprint(int64(1)<<53 - 3 + int64(i))
	case "uuid":
		return fmt.Sprintf("%08x-0000-4000-8000-%012x", i*1000, i)
	case "timestamp":
		return fmt.Sprintf("2026-11-%02d %02d:%02d:00.%06d+00", 1+i/1440%28, i/60%24, i%60, i)
	}
	return fmt.Sprintf("k'%05d\\\"é%%", i)
}

func table(kind string, n int) Table {
	tab := Table{Kind: kind}
	for i := range n {
		tab.Rows = append(tab.Rows, Row{Key: key(kind, i), Status: i % 3})
	}
	return tab
}

// all cuts a table, and returns its ranges.
func all(t *testing.T, s chunk.Source, n, most int) (list []chunk.Range, rows []int) {
	t.Helper()
	var at, from *chunk.Key
	for range 10_000 {
		cuts, err := s.Cut(t.Context(), from, nil, n, most)
		require.NoError(t, err)
		require.LessOrEqual(t, len(cuts.Cuts), most)
		for _, c := range cuts.Cuts {
			require.Positive(t, c.Rows)
			list, rows = append(list, chunk.Range{After: at, Through: new(c.Through)}), append(rows, c.Rows)
			at = new(c.Through)
			from = at
		}
		if cuts.Done {
			return list, rows
		}
		if cuts.Seen != nil {
			from = cuts.Seen
		}
	}
	require.FailNow(t, "there is no end")
	return nil, nil
}

// covered requires that each row is in one range, and in the order of keys.
func covered(t *testing.T, m Made, where string, list []chunk.Range) (each []int) {
	t.Helper()
	rows := []string{}
	for _, r := range list {
		in := m.Rows(r, where)
		rows, each = append(rows, in...), append(each, len(in))
	}
	require.Equal(t, m.Rows(chunk.Range{}, where), rows)
	return each
}

func cover(t *testing.T, kind string, create func(*testing.T, Table) Made) {
	m := create(t, table(kind, 90))
	for _, where := range []string{"", "status = 1", "status = 1 -- or 2", "status = 1 OR status = 2", "status > 5"} {
		s := m.Source(where)
		require.NoError(t, s.Check(t.Context()))
		for _, size := range []struct{ n, most int }{{1, 64}, {7, 1}, {7, 3}, {89, 2}, {90, 1}, {100_000, 64}} {
			list, rows := all(t, s, size.n, size.most)
			require.Equal(t, rows, covered(t, m, where, list), "%+v", size)
			for i, n := range rows {
				require.LessOrEqual(t, n, size.n)
				if i < len(rows)-1 {
					require.Equal(t, size.n, n)
				}
			}
		}
	}
}

// equal: rows with equal keys are in one range, where the index is not unique.
func equal(t *testing.T, kind string, create func(*testing.T, Table) Made) {
	tab := Table{Kind: kind}
	for i := range 120 {
		tab.Rows = append(tab.Rows, Row{Key: key(kind, i/40)})
	}
	m := create(t, tab)
	for _, n := range []int{1, 13, 40, 41, 79} {
		list, _ := all(t, m.Source(""), n, 5)
		each := covered(t, m, "", list)
		for _, rows := range each {
			require.Zero(t, rows%40, "n = %d: %v", n, each)
		}
		require.NotEmpty(t, each)
	}
}

// edges: keys at the ends of their type, and those that a float or a local time would change, are bounds like any others.
func edges(t *testing.T, kind string, create func(*testing.T, Table) Made) {
	keys := map[string][]string{
		"integer": {"-2147483648", "-1", "0", "1", "2147483647"},
		"bigint": {
			"-9223372036854775808", "-9007199254740993", "-9007199254740992", "0", "9007199254740992", "9007199254740993",
			"9007199254740994", "9223372036854775806", "9223372036854775807",
		},
		"uuid": {"00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff"},
		"text": {
			"", " ", "\t\n\r", "%s", "'", "\"", "$1", "?1", "A", "\\", "\\N", "a", "a ", "a\x01", "a'b", "b", "e\u0301", "é", "\u200b", "中", "🙂",
		},
		"timestamp": {
			"2026-10-25 00:59:59.999999+00", "2026-10-25 01:00:00+00", "2026-10-25 01:00:00.000001+00", "2026-10-25 01:00:00.1+00", "2026-11-01 05:30:00+00",
		},
	}[kind]
	tab := Table{Kind: kind}
	for _, k := range keys {
		tab.Rows = append(tab.Rows, Row{Key: k})
	}
	m := create(t, tab)
	s := m.Source("")
	list, rows := all(t, s, 1, 4)
	require.Len(t, list, len(keys))
	require.Equal(t, rows, covered(t, m, "", list))
	for i, r := range list {
		require.Len(t, m.Rows(r, ""), 1, "%d: %v", i, *r.Through)
	}
}

func compare(t *testing.T, kind string, create func(*testing.T, Table) Made) {
	m := create(t, table(kind, 30))
	s := m.Source("")
	list, _ := all(t, s, 1, 30)
	for _, i := range []int{0, 3, 29} {
		for _, j := range []int{0, 3, 29} {
			got, err := s.Compare(t.Context(), *list[i].Through, *list[j].Through)
			require.NoError(t, err)
			switch {
			case i < j:
				require.Negative(t, got)
			case i > j:
				require.Positive(t, got)
			default:
				require.Zero(t, got)
			}
		}
	}
	var keys []chunk.Key
	for _, i := range []int{29, 3, 0, 3} {
		keys = append(keys, *list[i].Through)
	}
	places, err := s.Order(t.Context(), keys)
	require.NoError(t, err)
	require.Equal(t, []int{2, 1, 3, 0}, places)
	places, err = s.Order(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, places)
}

func middle(t *testing.T, kind string, create func(*testing.T, Table) Made) {
	m := create(t, table(kind, 100))
	s := m.Source("")
	list, _ := all(t, s, 50, 1)
	for _, r := range append(list, chunk.Range{}, chunk.Range{After: list[0].Through}, chunk.Range{Through: list[0].Through}) {
		for _, rows := range []int{1, 50, 100, 5000} {
			k, ok, err := s.Middle(t.Context(), r, rows)
			require.NoError(t, err)
			require.True(t, ok)
			low, high := m.Rows(chunk.Range{After: r.After, Through: &k}, ""), m.Rows(chunk.Range{After: &k, Through: r.Through}, "")
			require.NotEmpty(t, low)
			require.NotEmpty(t, high)
			require.Equal(t, m.Rows(r, ""), append(low, high...))
			if rows == 50 && r.After != nil {
				require.Len(t, low, 25)
			}
		}
	}
	single, _ := all(t, s, 1, 2)
	_, ok, err := s.Middle(t.Context(), single[5], 1)
	require.NoError(t, err)
	require.False(t, ok, "one row")
	_, ok, err = s.Middle(t.Context(), chunk.Range{After: list[len(list)-1].Through}, 10)
	require.NoError(t, err)
	require.False(t, ok, "none")
	m.Exec("UPDATE tab SET status = 9")
	_, ok, err = m.Source("status < 9").Middle(t.Context(), list[0], 50)
	require.NoError(t, err)
	require.False(t, ok, "all done")
}

func empty(t *testing.T, create func(*testing.T, Table) Made) {
	for _, kind := range []string{"integer", "bigint", "uuid", "text", "timestamp"} {
		m := create(t, Table{Kind: kind})
		s := m.Source("status = 0")
		require.NoError(t, s.Check(t.Context()))
		list, _ := all(t, s, 10, 10)
		require.Empty(t, list)
	}
}

// grows: what comes behind the last key is found from there on, and nothing else.
func grows(t *testing.T, create func(*testing.T, Table) Made) {
	m := create(t, table("integer", 25))
	s := m.Source("")
	list, _ := all(t, s, 10, 10)
	last := list[len(list)-1].Through
	cuts, err := s.Cut(t.Context(), last, nil, 10, 10)
	require.NoError(t, err)
	require.Empty(t, cuts.Cuts)
	require.True(t, cuts.Done)
	m.Exec("INSERT INTO tab (k, status) VALUES (100000, 0), (100001, 0), (-99999, 0)")
	cuts, err = s.Cut(t.Context(), last, nil, 10, 10)
	require.NoError(t, err)
	require.Equal(t, []chunk.Cut{{Through: "100001", Rows: 2}}, cuts.Cuts)
	limit := chunk.Key("100000")
	cuts, err = s.Cut(t.Context(), last, &limit, 10, 10)
	require.NoError(t, err)
	require.Equal(t, []chunk.Cut{{Through: "100000", Rows: 1}}, cuts.Cuts)
}

func count(t *testing.T, create func(*testing.T, Table) Made) {
	m := create(t, table("text", 30))
	n, err := m.Source("status = 1").Count(t.Context(), chunk.Range{}, 100)
	require.NoError(t, err)
	require.Equal(t, 10, n)
	n, err = m.Source("").Count(t.Context(), chunk.Range{After: new(chunk.Key(key("text", 4))), Through: new(chunk.Key(key("text", 9)))}, 100)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	n, err = m.Source("").Count(t.Context(), chunk.Range{}, 7)
	require.NoError(t, err)
	require.Equal(t, 7, n, "bounded")
	first, last, err := m.Source("status = 1").Ends(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{key("text", 0), key("text", 29)}, []string{string(*first), string(*last)}, "whatever the condition finds")
	left, err := chunk.CountLeft(t.Context(), m.Source("status = 1"), new(chunk.Key(key("text", 21))), 100)
	require.NoError(t, err)
	require.Equal(t, chunk.Left{Rows: 7, First: new(chunk.Key(key("text", 1)))}, left)
	left, err = chunk.CountLeft(t.Context(), m.Source("status = 1"), nil, 4)
	require.NoError(t, err)
	require.Equal(t, 4, left.Rows, "bounded")
	left, err = chunk.CountLeft(t.Context(), m.Source("status = 7"), nil, 4)
	require.NoError(t, err)
	require.Zero(t, left)
}
