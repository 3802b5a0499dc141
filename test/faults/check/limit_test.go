package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

func TestLimitHolds(t *testing.T) {
	t.Parallel()
	h := &history.History{
		Kinds:  map[string]history.Kind{"capped": {Name: "capped", Most: 3}},
		Limits: []history.LimitSample{{At: time.Second, Kind: "capped", Running: 3, Waiting: true}},
	}
	require.Empty(t, check.Check(h))
	h.Limits = append(h.Limits, history.LimitSample{At: 2 * time.Second, Kind: "capped", Running: 4})
	found := check.Check(h)
	require.Len(t, found, 1)
	require.Equal(t, check.LimitHolds, found[0].Invariant)
}

// TestLimitHoldsAsItChanges: the limit in force bounds each claim, types that share one are counted together, and what ran before goes on.
func TestLimitHoldsAsItChanges(t *testing.T) {
	t.Parallel()
	ends := func(serial, id int64, typ string) history.Move {
		return history.Move{Serial: serial, ID: id, State: "succeeded", Fence: 2, Archived: true, Type: typ}
	}
	claim := func(serial, id int64, typ string) history.Move {
		return history.Move{Serial: serial, ID: id, State: "running", Fence: 1, Type: typ}
	}
	h := &history.History{
		LimitMoves: []history.LimitMove{
			{Serial: 1, Type: "old", Name: "old", Most: 3}, {Serial: 10, Type: "old", Name: "new", Most: 2}, {Serial: 11, Type: "new", Name: "new", Most: 2},
			{Serial: 30, Type: "new"},
		},
		Moves: []history.Move{
			claim(2, 1, "old"), claim(3, 2, "old"), claim(4, 3, "old"), claim(5, 90, "other"),
			ends(12, 1, "old"), ends(13, 2, "old"), claim(14, 4, "new"), ends(15, 3, "old"), claim(16, 5, "old"), claim(17, 91, "other"),
			claim(31, 6, "new"), claim(32, 7, "new"), claim(33, 8, "new"),
		},
	}
	at := func(serial int64) int {
		return slices.IndexFunc(h.Moves, func(m history.Move) bool { return m.Serial == serial })
	}
	limitsBroken := func() (ids []int64) {
		for _, v := range check.Check(h) {
			if v.Invariant == check.LimitHolds {
				ids = append(ids, v.IDs...)
			}
		}
		return ids
	}
	require.Empty(t, limitsBroken())

	h.Moves[at(13)].ID = 92 // so 2 and 3 run yet, which are as many as may
	require.Equal(t, []int64{4, 5}, limitsBroken())
	h.Moves[at(13)].ID = 2
	h.LimitMoves[0].Most = 2
	require.Equal(t, []int64{3}, limitsBroken())
}
