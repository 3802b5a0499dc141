package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/history"
)

func TestSlots(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 24, 8, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		seconds []int
		missed  int64
		breaks  []Name
	}{
		"never fired":            {nil, 3, nil},
		"each":                   {[]int{0, 1, 2}, 0, nil},
		"missed":                 {[]int{0, 3}, 2, nil},
		"missed, counted twice":  {[]int{0, 3}, 4, nil},
		"lost":                   {[]int{0, 3}, 1, []Name{SlotsAccounted}},
		"twice":                  {[]int{0, 1, 1, 2}, 0, []Name{SlotsOnce}},
		"twice hides none lost":  {[]int{0, 1, 1, 3}, 0, []Name{SlotsOnce, SlotsAccounted}},
		"one, and nothing after": {[]int{7}, 0, nil},
	} {
		s := history.Schedule{Name: "a", Missed: c.missed}
		for _, n := range c.seconds {
			s.Fired = append(s.Fired, start.Add(time.Duration(n)*time.Second))
		}
		var broken []Name
		for _, v := range Check(&history.History{Schedules: []history.Schedule{s}}) {
			broken = append(broken, v.Invariant)
		}
		require.Equal(t, c.breaks, broken, name)
	}
}
