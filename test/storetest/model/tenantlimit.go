package model

import (
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// tenantOf is a tenant of a limit.
type tenantOf struct{ limit, tenant string }

// tenantRoom returns how many more rows of a tenant may start, and where it is the rate that lets none, how long it is until one may.
func (s *Store) tenantRoom(of tenantOf, each store.TenantLimit, now time.Time) (n int, next time.Duration) {
	running := 0
	if each.Most > 0 {
		for _, r := range s.live {
			if r.State.Running() && r.Tenant == of.tenant && s.limits[r.Type].Name == of.limit {
				running++
			}
		}
		for i := range s.places {
			if p := &s.places[i]; p.limit == of.limit && p.tenant == of.tenant && now.Before(p.until) {
				running++
			}
		}
	}
	b := store.FullBucket(each.Burst, now)
	if each.Rate > 0 {
		if was, has := s.tenantBuckets[of]; has {
			b = was.Refilled(each.Rate, each.Burst, 0, now)
		}
		s.tenantBuckets[of] = b
	}
	return each.Room(running, b, 1<<30)
}

// withinTenants returns those of the rows of a want, which are in order, that the bounds of their tenants leave room for beside what the claim
// has found already, whether these are not all, and how long it is until a rate lets another one start; 0: not known.
func (s *Store) withinTenants(rows []*Row, limit string, looked map[tenantOf]int, now time.Time) (some []*Row, waits bool, next time.Duration) {
	each := s.limits[limit].Tenant
	if limit == "" || !each.Bounds() {
		return rows, false, 0
	}
	left := map[string]int{}
	for _, r := range rows {
		n, known := left[r.Tenant]
		if !known {
			n = 1 << 30
			if r.Tenant != "" {
				of := tenantOf{limit, r.Tenant}
				room, in := s.tenantRoom(of, each, now)
				n = room - looked[of]
				if in > 0 && (next == 0 || in < next) {
					next = in
				}
			}
		}
		if left[r.Tenant] = n - 1; n > 0 {
			some = append(some, r)
		} else {
			waits = true
		}
	}
	return some, waits, next
}

// spendTenant takes a token of a row's tenant.
func (s *Store) spendTenant(r *Row) {
	of := tenantOf{s.limits[r.Type].Name, r.Tenant}
	if b, has := s.tenantBuckets[of]; has && s.limits[of.limit].Tenant.Rate > 0 {
		b.Tokens--
		s.tenantBuckets[of] = b
	}
}
