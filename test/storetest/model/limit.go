package model

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// declaredLimit is a declaration of a limit with all who declare it.
type declaredLimit struct {
	store.TypeLimit
	hash string
	by   map[task.Session]bool
}

// declareLimits notes what limits a session declares, and puts in force what follows from all declarations.
func (s *Store) declareLimits(session task.Session, list []store.TypeLimit, now time.Time, calm time.Duration) {
	for _, d := range s.limitDeclarations {
		maps.DeleteFunc(d.by, func(by task.Session, _ bool) bool { return by == session || s.agents[by] == nil })
	}
	for _, one := range list {
		_, hash := one.Text()
		at := slices.IndexFunc(s.limitDeclarations, func(d *declaredLimit) bool { return d.Name == one.Name && d.hash == hash })
		if at < 0 {
			at = len(s.limitDeclarations)
			s.limitDeclarations = append(s.limitDeclarations, &declaredLimit{one, hash, map[task.Session]bool{}})
		}
		s.limitDeclarations[at].by[session] = true
	}
	var all []store.LimitDeclarer
	for i, d := range s.limitDeclarations {
		for by := range d.by {
			a := s.agents[by]
			all = append(all, store.LimitDeclarer{Number: int64(i + 1), Limit: d.TypeLimit, SeenAt: a.SeenAt, PresentUntil: a.PresentUntil})
		}
	}
	have := slices.Collect(maps.Values(s.limits))
	clear(s.limits)
	for _, l := range store.LimitsInForce(all, have, now, calm) {
		s.limits[l.Type] = l
	}
}

// place is that of a settled attempt which may still be at work, until its lease ends.
type place struct {
	limit  string
	tenant string
	kept   time.Time
	until  time.Time
}

// keepPlace has an attempt that is about to be settled keep its place, if it may still be at work, and gives back the token of one that
// never started.
func (s *Store) keepPlace(r *Row, e store.Settlement, now time.Time) {
	if b, has := s.buckets[s.limits[r.Type].Name]; has && s.limits[r.Type].Rate > 0 && e.NeverStarted() {
		b.Tokens++
		s.buckets[s.limits[r.Type].Name] = b
	}
	of := tenantOf{s.limits[r.Type].Name, r.Tenant}
	if b, has := s.tenantBuckets[of]; has && s.limits[r.Type].Tenant.Rate > 0 && e.NeverStarted() {
		b.Tokens++
		s.tenantBuckets[of] = b
	}
	if l, has := s.limits[r.Type]; has && e.Next.AfterLease {
		s.places = append(s.places, place{l.Name, r.Tenant, now, r.LeaseEnd})
	}
}

// rooms returns how many more rows may run, and start, of each wanted row type that has a limit, before a claim.
func (s *Store) rooms(now time.Time, wants []store.Want) map[string]store.Room {
	rooms := map[string]store.Room{}
	for typ, l := range s.limits {
		if !slices.ContainsFunc(wants, func(w store.Want) bool { return w.Type == typ }) {
			continue
		}
		l = s.limits[l.Name]
		room := store.Room{Limit: l.Name, Rows: l.Most}
		if l.Most == 0 {
			room.Rows = math.MaxInt32
		}
		for _, r := range s.live {
			if r.State.Running() && s.limits[r.Type].Name == l.Name {
				room.Rows--
			}
		}
		for i := range s.places {
			p := &s.places[i]
			if p.kept.After(now.Add(time.Second)) { // the clock was set back
				p.kept, p.until = now, now.Add(p.until.Sub(p.kept))
			}
			if p.limit == l.Name && now.Before(p.until) {
				room.Rows--
			}
		}
		room.Rows = max(room.Rows, 0)
		if l.Rate > 0 {
			b, has := s.buckets[l.Name]
			if !has {
				b = store.FullBucket(l.Burst, now)
			}
			s.buckets[l.Name] = b.Refilled(l.Rate, l.Burst, 0, now)
			room = room.Within(s.buckets[l.Name], l.Rate, l.Burst)
		}
		rooms[typ] = room
	}
	return rooms
}
