package ops

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Health is how all agents of a store are, and what waits and runs there. Times are the store's clock.
type Health struct {
	Status string `json:"status"` // HealthOK or HealthFailing
	// Problems are why it is failing; not nil.
	Problems []string          `json:"problems"`
	Agents   []store.AgentInfo `json:"agents"` // present ones, with their last heartbeats, the first HealthAgents by name; not nil
	Present  int               `json:"agents_present"`
	Claiming int               `json:"agents_claiming"` // of these: those that claim tasks
	// Rows counts live tasks by state; what is 0 is missing. Due are those that may start now but for limits and rates, and
	// OldestDue is for how long the one has been due that waits longest, in seconds.
	Rows      map[task.State]int64 `json:"rows"`
	Due       int64                `json:"due"`
	OldestDue float64              `json:"oldest_due_seconds"`
	Orphans   int64                `json:"orphans"` // waiting tasks that no present agent with workers declares
	// Capped: there are more rows than were counted, so these numbers are lower bounds.
	Capped bool `json:"capped,omitempty"`
}

// What a Health may say.
const (
	HealthOK      = "ok"
	HealthFailing = "failing"
)

// HealthAgents is how many agents a Health names at most.
const HealthAgents = 1000

// HealthStore is what a Health is read from.
type HealthStore interface {
	Store
	ListAgents(ctx context.Context, all bool) ([]store.AgentInfo, error)
}

// ReadHealth reads how all agents of a store are. Where the store cannot be read, that is its one problem.
func ReadHealth(ctx context.Context, s HealthStore) Health {
	h := Health{Status: HealthOK, Problems: []string{}, Agents: []store.AgentInfo{}, Rows: map[task.State]int64{}}
	if err := h.read(ctx, s); err != nil {
		h.Fail("the store cannot be used: " + err.Error())
	} else if h.Claiming == 0 {
		h.Fail("no agent that claims tasks is present")
	}
	return h
}

// Fail adds a problem.
func (h *Health) Fail(problem string) {
	h.Status, h.Problems = HealthFailing, append(h.Problems, problem)
}

func (h *Health) read(ctx context.Context, s HealthStore) error {
	if err := s.Ping(ctx); err != nil {
		return err
	}
	stats, err := s.Counts(ctx)
	if err != nil {
		return fmt.Errorf("count tasks: %w", err)
	}
	agents, err := s.ListAgents(ctx, false)
	if err != nil {
		return fmt.Errorf("list agents: %w", err)
	}
	for i := range agents {
		if agents[i].State == store.AgentWorking {
			h.Claiming++
		}
	}
	h.Present, h.Agents = len(agents), append(h.Agents, agents[:min(len(agents), HealthAgents)]...)
	h.Rows, h.Capped = rowsByState(&stats), stats.More
	for typ, n := range stats.Due {
		h.Due += n
		h.OldestDue = max(h.OldestDue, stats.OldestDue[typ].Round(time.Millisecond).Seconds())
	}
	for _, n := range stats.Orphans {
		h.Orphans += n
	}
	return nil
}
