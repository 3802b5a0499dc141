package ops

import (
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Counts is what a store has at one time, in numbers.
type Counts struct {
	Rows          map[task.State]int64 `json:"rows"`             // live tasks by state; what is 0 is missing
	BatchTasks    map[string]int64     `json:"batch_tasks"`      // tasks of batches that have not ended, in the same way
	AgentsPresent int                  `json:"agents_present"`   // with workers
	Capped        bool                 `json:"capped,omitempty"` // there are more rows than were counted
}

// CountsOf returns the numbers of what a store has counted.
func CountsOf(stats *store.Stats) Counts {
	c := Counts{Rows: rowsByState(stats), BatchTasks: map[string]int64{}, AgentsPresent: stats.AgentsPresent, Capped: stats.More}
	for state, n := range stats.BatchTasks {
		if n > 0 {
			c.BatchTasks[state] = n
		}
	}
	return c
}

// rowsByState sums the rows of all types.
func rowsByState(s *store.Stats) map[task.State]int64 {
	rows := map[task.State]int64{}
	for _, c := range s.Waiting {
		if c.N > 0 {
			rows[c.State] += c.N
		}
	}
	return rows
}
