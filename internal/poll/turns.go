package poll

import (
	"cmp"
	"slices"

	"github.com/leasehold/leasehold/internal/task"
)

// tenantOf is whose turn it is: a tenant of a row type in one phase. Rows without a tenant are one among them, "".
type tenantOf struct {
	typ    string
	phase  task.Phase
	tenant string
}

// inTurns orders the rows of a claim as their tenants take turns, each with as many rows as weight says, at least one. A claim ahead of free slots
// may have the few rows that each of many tenants has, and then hundreds of one tenant, which are due for longer and so come first in a claim.
// The rows of a tenant keep their order; and so do all rows where none has a tenant.
func inTurns(rows []task.Task, weight func(*task.Task) int) []task.Task {
	turns := false
	for i := range rows {
		turns = turns || rows[i].Tenant != ""
	}
	if !turns {
		return rows
	}
	taken := map[tenantOf]int{}
	order, round := make([]int, len(rows)), make([]int, len(rows))
	for i := range rows {
		of := tenantOf{rows[i].Type, rows[i].Phase(), rows[i].Tenant}
		order[i], round[i] = i, taken[of]/max(weight(&rows[i]), 1)
		taken[of]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(round[a], round[b]) })
	turned := make([]task.Task, len(rows))
	for i, from := range order {
		turned[i] = rows[from]
	}
	return turned
}
