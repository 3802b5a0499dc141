package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func one(string) int { return 1 }

func TestTurnsGoRound(t *testing.T) {
	t.Parallel()
	r := &ring{}
	require.Empty(t, r.plan(3, one))
	r.add([]string{"", "a", "b", "c"})
	require.Equal(t, []turn{{"", 1}, {"a", 1}, {"b", 1}}, r.plan(3, one))
	require.Equal(t, []turn{{"c", 1}, {"", 1}}, r.plan(2, one))
	require.Equal(t, []turn{{"a", 2}, {"b", 1}, {"c", 1}, {"", 1}}, r.plan(5, one))
	r.drop(map[string]bool{"b": true})
	r.add([]string{"a", "bb", "d"})
	require.Equal(t, []string{"", "a", "bb", "c", "d"}, r.tenants)
	require.Equal(t, []turn{{"bb", 1}, {"c", 1}}, r.plan(2, one), "behind the one whose turn was last")

	weight := func(name string) int { return map[string]int{"a": 3}[name] + 1 }
	require.Equal(t, []turn{{"d", 1}, {"", 1}, {"a", 1}}, r.plan(3, weight))
	require.Equal(t, []turn{{"a", 3}, {"bb", 1}}, r.plan(4, weight), "a turn goes on")
	plan := r.plan(3, weight)
	require.Equal(t, []turn{{"c", 1}, {"d", 1}, {"", 1}}, plan)
	r.rewind(plan, map[string]int{"c": 1})
	require.Equal(t, []turn{{"d", 1}, {"", 1}}, r.plan(2, weight), "there was no room for them")
}

func TestARingIsBounded(t *testing.T) {
	t.Parallel()
	names := make([]string, 2*ringMost)
	for i := range names {
		names[i] = fmt.Sprintf("%06d", i)
	}
	r := &ring{}
	r.add(names)
	require.Equal(t, names[:ringMost], r.tenants)
	r.plan(10, one)
	r.add(names[ringMost : ringMost+25])
	require.Len(t, r.tenants, ringMost)
	require.Equal(t, names[10], r.tenants[0], "those whose turns were last have left")
	seen := map[string]bool{}
	for i := 0; len(seen) < len(names); i = (i + walkSteps) % len(names) {
		r.add(names[i : i+walkSteps])
		for _, p := range r.plan(64, one) {
			seen[p.tenant] = true
		}
		require.LessOrEqual(t, len(r.tenants), ringMost)
		require.True(t, slices.IsSorted(r.tenants))
	}
}

// TestARoundOfWalks has walks that find nothing come by all tenants, wherever the first of them begins.
func TestARoundOfWalks(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	for _, begin := range append([]string{"", "x"}, names...) {
		r, seen := &ring{after: begin}, map[string]bool{}
		now := time.Unix(1000, 0)
		for n := 0; ; n++ {
			require.Less(t, n, 10, "from %q", begin)
			w, from := walk{after: r.after}, r.after
			for range 2 { // two steps
				i := slices.IndexFunc(names, func(name string) bool { return name > w.after })
				if i < 0 && (w.wrapped || r.round.wrapped || from == "") {
					w.ended = true
					break
				}
				if i < 0 {
					i, w.wrapped, w.ended = 0, true, false
				}
				later := int64(1000)
				w.met(names[i], &later, nil)
				seen[names[i]] = true
			}
			found, complete := r.walkedBy(&w, from, time.Millisecond, now, nil)
			require.False(t, found)
			if complete {
				break
			}
		}
		require.Len(t, seen, len(names), "from %q", begin)
		require.False(t, r.rests.IsZero())
		require.Equal(t, now.Add(time.Millisecond), r.next)
	}
}
