package poll

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/task"
)

// rowsOf makes rows of tenants, in the order in which they are given.
func rowsOf(tenants ...string) (rows []task.Task) {
	for i, name := range tenants {
		rows = append(rows, task.Task{ID: task.ID(i + 1), Type: "a", Tenant: name, State: task.StateRunning})
	}
	return rows
}

func ids(rows []task.Task) (list []task.ID) {
	for i := range rows {
		list = append(list, rows[i].ID)
	}
	return list
}

func equal(*task.Task) int { return 0 }

func TestRowsOfAClaimTakeTurns(t *testing.T) {
	for name, c := range map[string]struct {
		rows   []task.Task
		weight func(*task.Task) int
		want   []task.ID
	}{
		"one that has waited for longer": {rowsOf("big", "big", "big", "big", "x", "y", "x"), equal, []task.ID{1, 5, 6, 2, 7, 3, 4}},
		"weights": {rowsOf("big", "big", "big", "big", "x", "x"), func(t *task.Task) int {
			return map[string]int{"big": 3}[t.Tenant]
		}, []task.ID{1, 2, 3, 5, 4, 6}},
		"some without a tenant": {rowsOf("", "", "", "x"), equal, []task.ID{1, 4, 2, 3}},
		"none with a tenant":    {rowsOf("", "", ""), equal, []task.ID{1, 2, 3}},
		"none":                  {nil, equal, nil},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, ids(inTurns(c.rows, c.weight))) })
	}
}

// However many rows each tenant has: rows of a tenant keep their order, and no tenant has more than one row more than another that still waits.
func TestTurnsAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(rapid.SampledFrom([]string{"", "a", "b", "c"})).Draw(t, "tenants")
		left, taken, last := map[string]int{}, map[string]int{}, map[string]task.ID{}
		for _, name := range names {
			left[name]++
		}
		rows := inTurns(rowsOf(names...), equal)
		require.Len(t, rows, len(names))
		turns := fmt.Sprint(names) != fmt.Sprint(make([]string, len(names)))
		for i := range rows {
			of := rows[i].Tenant
			require.Greater(t, rows[i].ID, last[of])
			last[of] = rows[i].ID
			taken[of]++
			left[of]--
			for other, n := range left {
				if turns && n > 0 {
					require.LessOrEqual(t, taken[of], taken[other]+1, "%s before %s", of, other)
				}
			}
		}
	})
}
