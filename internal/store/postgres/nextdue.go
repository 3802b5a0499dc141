package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// NextDue returns how long it is until the next row is due that one of the wants could claim.
func (s *Store) NextDue(ctx context.Context, c store.Claim) (in time.Duration, ok bool, err error) {
	types, rollbacks := make([]string, len(c.Wants)), make([]bool, len(c.Wants))
	for i, w := range c.Wants {
		types[i], rollbacks[i] = w.Type, w.Phase == task.Rollback
	}
	var us *int64
	soonest := func(other *int64) {
		if other != nil && (us == nil || *other < *us) {
			us = other
		}
	}
	err = s.do(ctx, "look for the next due task", func(ctx context.Context, conn *pgx.Conn) error {
		us = nil
		var places []int
		if err := queryRow(ctx, conn, s.sql.NextDue, arg("types", types), arg("rollbacks", rollbacks),
			arg("regions", regions(c.Region))).Scan(&us, &places); err != nil {
			return err
		}
		for _, place := range places {
			s.turns.meet(laneOf(c, c.Wants[place-1]))
		}
		return s.nextOfTenants(ctx, conn, c, soonest)
	})
	switch {
	case err != nil:
		return 0, false, err
	case us == nil:
		return 0, false, nil
	}
	return microseconds(max(*us, 0)), true, nil
}

// nextOfTenants calls f with the time in microseconds until rows with a tenant are due that one of the wants could claim: of the first
// walkSteps tenants, and what a round of walks has found of more. What lies behind is found by the polls of agents.
func (s *Store) nextOfTenants(ctx context.Context, conn *pgx.Conn, c store.Claim, f func(us *int64)) error {
	for _, w := range c.Wants {
		of := laneOf(c, w)
		if w.Weights == nil && !s.turns.known(of) {
			continue
		}
		var due []string
		err := s.eachTenant(ctx, conn, c, w, "", walkSteps, func(name string, us, wait *int64) {
			if f(us); us != nil && *us <= 0 && wait == nil {
				due = append(due, name)
			}
		})
		if err != nil {
			return err
		}
		s.turns.of(of, func(r *ring, now time.Time) {
			if r.next.After(now) {
				us := r.next.Sub(now).Microseconds()
				f(&us)
			}
			if len(due) > 0 {
				r.add(due)
				r.rests = time.Time{}
			}
		})
	}
	return nil
}

// microseconds is a duration; one longer than 292 years, forward or back, becomes as long as a duration can be.
func microseconds(us int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(max(min(us, most), -most)) * time.Microsecond
}
