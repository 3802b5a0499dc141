package store

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Bounds of a Flow.
const (
	FlowLimits  = 100 // limits, and types of each
	FlowTenants = 100 // pairs of a type and a tenant, in each region and index
	FlowLocks   = 50
)

// Flow is what limits, rates and locks let start, and who waits for them, at one moment of the store.
type Flow struct {
	Now     time.Time    `json:"now"`
	Limits  []FlowLimit  `json:"limits"`  // by name
	Tenants []FlowTenant `json:"tenants"` // of whom tasks wait, by type and name
	Locks   []FlowLock   `json:"locks"`   // for which tasks wait, by name
	// There may be more of each.
	MoreLimits  bool `json:"more_limits,omitempty"`
	MoreTenants bool `json:"more_tenants,omitempty"`
	MoreLocks   bool `json:"more_locks,omitempty"`
}

// FlowBound is a bound of attempts: how many run at once and how many start, and what of it is in use. 0 as limit or rate: there is none.
type FlowBound struct {
	Limit   int     `json:"limit,omitempty"` // attempts at once
	Running int     `json:"running"`         // attempts, and places that ended ones keep until their leases end
	Rate    float64 `json:"rate,omitempty"`  // starts in a second
	Burst   int     `json:"burst,omitempty"`
	Tokens  float64 `json:"tokens,omitempty"` // starts that the rate lets go at once
	NextS   float64 `json:"next_s,omitempty"` // seconds until it lets one start; 0: now
}

// Count fills in what the rate lets start: b is the bucket, to which back tokens were returned.
func (f *FlowBound) Count(b Bucket, back int, now time.Time) {
	if f.Rate <= 0 {
		return
	}
	b = b.Refilled(f.Rate, f.Burst, back, now)
	_, next := b.Room(f.Rate, f.Burst)
	f.Tokens, f.NextS = min(max(b.Tokens, 0), float64(f.Burst)), next.Seconds()
}

// Full reports whether it lets nothing start now.
func (f *FlowBound) Full() bool { return f.Limit > 0 && f.Running >= f.Limit || f.NextS > 0 }

// FlowLimit is a limit, or a rate, with the row types that share it.
type FlowLimit struct {
	FlowBound

	Name      string      `json:"name"`
	Types     []string    `json:"types"` // FlowLimits at most
	Due       int64       `json:"due"`   // tasks of these types that may start, but for limits
	DueCapped bool        `json:"due_capped,omitempty"`
	Tenant    TenantLimit `json:"-"` // what bounds each tenant
}

// FlowTenant is a tenant of a row type.
type FlowTenant struct {
	FlowBound

	Type    string `json:"type"`
	Tenant  string `json:"tenant"`
	Waiting int64  `json:"waiting"` // tasks that wait, or wait for another attempt
	Capped  bool   `json:"capped,omitempty"`
	Of      string `json:"of_limit,omitempty"` // name of the limit that bounds it; "": nothing does
}

// FlowLock is a lock for which tasks wait.
type FlowLock struct {
	Lock    string     `json:"lock"`
	Task    task.ID    `json:"task_id,omitempty"` // that holds it; 0: none is known to
	Type    string     `json:"type,omitempty"`    // of it
	State   task.State `json:"state,omitempty"`   // of it; "": it has ended
	Since   *time.Time `json:"since,omitempty"`   // when it was claimed
	Until   *time.Time `json:"until,omitempty"`   // what an attempt has left behind may be at work until then
	Waiting int64      `json:"waiting"`
	Capped  bool       `json:"capped,omitempty"`
	Next    task.ID    `json:"next_task_id"` // one of those that wait, which comes before the others of its type
}

// AddTenant adds rows that wait of a tenant of a type, in the order of types and tenants but for regions. capped: there are more.
func (f *Flow) AddTenant(typ, tenant string, waiting int64, capped bool) {
	for i := range f.Tenants {
		if t := &f.Tenants[i]; t.Type == typ && t.Tenant == tenant {
			t.Waiting, t.Capped = t.Waiting+waiting, t.Capped || capped
			return
		}
	}
	f.Tenants = append(f.Tenants, FlowTenant{Type: typ, Tenant: tenant, Waiting: waiting, Capped: capped})
}

// Bounds fills in what bounds each tenant, and returns those of whom something is to be counted.
func (f *Flow) Bounds() (bounded []*FlowTenant) {
	of := map[string]*FlowLimit{}
	for i := range f.Limits {
		for _, typ := range f.Limits[i].Types {
			of[typ] = &f.Limits[i]
		}
	}
	for i := range f.Tenants {
		t := &f.Tenants[i]
		l := of[t.Type]
		if l == nil || !l.Tenant.Bounds() {
			continue
		}
		t.Of, t.Limit, t.Rate, t.Burst = l.Name, l.Tenant.Most, l.Tenant.Rate, l.Tenant.Burst
		bounded = append(bounded, t)
	}
	return bounded
}
