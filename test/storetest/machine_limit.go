package storetest

import (
	"math"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
)

// limitActions are those that are about limits of types.
func (m *machine) limitActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){"limit": m.limit, "limit 2": m.limit, "claim 3": m.claim}
}

// limit has a session declare limits, others than before.
func (m *machine) limit(t *rapid.T) {
	_, s := m.pick(t)
	s.limits = nil
	for _, typ := range []string{"a", "b"} {
		l := store.TypeLimit{Name: typ, Types: []string{typ}}
		l.Most = rapid.SampledFrom([]int{0, 1, 2, 5}).Draw(t, "most of "+typ)
		if rapid.IntRange(0, 2).Draw(t, "rated") == 0 {
			l.Rate = rapid.SampledFrom([]float64{1, 0.5, 2}).Draw(t, "rate of "+typ) / step.Seconds()
			l.Burst = rapid.IntRange(1, 3).Draw(t, "burst of "+typ)
		}
		if typ == "b" && rapid.Bool().Draw(t, "tenants bounded") { // rows of the other have none
			l.Tenant.Most = rapid.IntRange(0, 2).Draw(t, "most of a tenant")
			if rapid.IntRange(0, 2).Draw(t, "tenants rated") == 0 {
				l.Tenant.Rate = rapid.SampledFrom([]float64{1, 0.5, 2}).Draw(t, "rate of a tenant") / step.Seconds()
				l.Tenant.Burst = rapid.IntRange(1, 3).Draw(t, "burst of a tenant")
			}
		}
		if l.Most > 0 || l.Rate > 0 || l.Tenant.Bounds() {
			s.limits = append(s.limits, l)
		}
	}
	m.presentAs(t, s)
}

// agentOf is a session as its heartbeat describes it.
func (m *machine) agentOf(s *session) store.Agent {
	a := m.agent(s.name)
	a.Limits = s.limits
	return a
}

// roomViews are rooms with times in halves of a step.
func roomViews(rooms map[string]store.Room) map[string]store.Room {
	out := map[string]store.Room{}
	for typ, room := range rooms {
		room.Next = time.Duration(math.Round(room.Next.Seconds()/half.Seconds())) * half
		room.Rows = min(room.Rows, 1000) // no bound
		room.TenantNext = 0              // a hint
		out[typ] = room
	}
	return out
}
