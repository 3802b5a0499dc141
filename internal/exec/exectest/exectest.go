// Package exectest makes leases for the tests of executors.
package exectest

import (
	"context"
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// Attempt is what a test runs: zero values are a plain first attempt.
type Attempt struct {
	Task     task.Task
	Policy   task.Policy
	Parent   context.Context      // nil: the background
	Presence func() time.Duration // nil: always present
	Age      time.Duration        // how long ago it was claimed
}

// Lease makes a lease as a claim would have. Its owner closes it.
func (a Attempt) Lease() *lease.Lease {
	row, policy := a.Task, a.Policy
	if row.ID == 0 {
		row.ID = 4211
	}
	if row.Type == "" {
		row.Type = "invoice.send"
	}
	if row.State == "" {
		row.State = task.StateRunning
	}
	if row.Attempt == 0 {
		row.Attempt = 1
	}
	if row.Fence == 0 {
		row.Fence = 9
	}
	if row.Payload == nil {
		row.Payload = json.RawMessage(`{"invoice": 7}`)
	}
	if row.ClaimedAt.IsZero() {
		row.ClaimedAt = time.Now().Add(-a.Age)
	}
	if policy.Timeout == 0 {
		policy.Timeout = 30 * time.Second
	}
	if policy.Stop == 0 {
		policy.Stop = task.StopLength(task.DefaultGrace)
	}
	parent := a.Parent
	if parent == nil {
		parent = context.Background()
	}
	clock := lease.RunClock()
	return lease.New(parent, &row, &policy, clock, clock.Now()-a.Age, a.Presence)
}

// Text is a template that is the same for every row.
func Text(s string) task.Template {
	return func(*task.Task) (string, error) { return s, nil }
}
