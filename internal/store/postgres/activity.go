package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// KeepActivity sets what a session has counted.
func (s *Store) KeepActivity(ctx context.Context, session task.Session, rows []store.ActivityRow) (dropped int, err error) {
	n := len(rows)
	if n == 0 {
		return 0, nil
	}
	steps, ats, keeps, types := make([]int16, n), make([]time.Time, n), make([]int64, n), make([]string, n)
	started, ended, outcomes, latency := make([]int32, n), make([]int32, n), make([]string, n), make([]string, n)
	for i := range rows {
		r := &rows[i]
		steps[i], ats[i], keeps[i], types[i] = int16(r.Step), r.At, r.Step.Kept().Microseconds(), storable(r.Type)
		started[i], ended[i] = store.ActivityCount(r.Started()), store.ActivityCount(r.Ended())
		outcomes[i] = store.ActivityList(r.Outcomes[:], "{", "}")
		latency[i] = store.ActivityList(r.Latency[:], "{", "}")
	}
	err = s.do(ctx, "write the activity", func(ctx context.Context, conn *pgx.Conn) error {
		var kept int
		err := scanOne(ctx, conn, []any{&kept}, s.sql.KeepActivity, arg("session", int64(session)), arg("steps", steps), arg("ats", ats),
			arg("keeps", keeps), arg("types", types), arg("started", started), arg("ended", ended), arg("outcomes", outcomes),
			arg("latency", latency), arg("ahead", store.ActivityAhead.Microseconds()))
		dropped = n - kept
		return err
	})
	return dropped, err
}

// Activity returns what all sessions have counted in so many intervals up to now.
func (s *Store) Activity(ctx context.Context, step store.ActivityStep, intervals int, typ string) (a store.Activity, err error) {
	err = s.do(ctx, "read the activity", func(ctx context.Context, conn *pgx.Conn) error {
		if err := scanOne(ctx, conn, []any{&a.Now}, s.sql.ActivityTime); err != nil {
			return err
		}
		var last time.Time
		a.Now = a.Now.UTC()
		a.From, last = store.ActivityWindow(step, intervals, a.Now)
		a.Rows = nil
		var sum store.ActivitySum
		var outcomes, latency []int64
		return forEach(ctx, conn, []any{&sum.At, &sum.Type, &outcomes, &latency}, func() error {
			sum.At = sum.At.UTC()
			copy(sum.Outcomes[:], outcomes)
			copy(sum.Latency[:], latency)
			a.Rows = append(a.Rows, sum)
			return nil
		}, s.sql.Activity, arg("step", int16(step)), arg("from", a.From), arg("last", last), arg("type", storable(typ)),
			arg("top", store.ActivityTop))
	})
	return a, err
}

// forgetActivity removes what is past its time, step by step.
func (s *Store) forgetActivity(ctx context.Context) error {
	for _, step := range []store.ActivityStep{store.ActivityMinute, store.ActivityHour} {
		err := s.purge(ctx, "forget activity", s.sql.ForgetActivity, arg("step", int16(step)), arg("age", step.Kept().Microseconds()),
			arg("ahead", store.ActivityAhead.Microseconds()))
		if err != nil {
			return err
		}
	}
	return nil
}
