package store

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Bounds of named leases, which applications take by SQL.
const (
	MaxLeaseName = 255 // bytes of a name, and of a holder
	MinLeaseTTL  = time.Second
	MaxLeaseTTL  = 24 * time.Hour
	// LeaseDoubt is how long a lease that has expired is not taken, counted from when another that asks for it sees that, unless
	// an agent vouches for the clock (Heartbeat.View). Where a session's TTL is longer, it is that.
	LeaseDoubt = 15 * time.Second
)

// NamedLease is a row of the view leases.
type NamedLease struct {
	Name       string
	Holder     string
	Fence      task.Fence
	AcquiredAt time.Time
	ExpiresAt  time.Time // in the past: it has expired, and no one has taken it yet
}
