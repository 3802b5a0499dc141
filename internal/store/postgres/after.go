package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Unblock makes one step of the work on rows that wait for others.
func (s *Store) Unblock(ctx context.Context, most int) (u store.Unblocked, err error) {
	err = s.do(ctx, "unblock", func(ctx context.Context, conn *pgx.Conn) error {
		u = store.Unblocked{}
		some := false
		if err := queryRow(ctx, conn, s.sql.Blocked).Scan(&some, &u.Waiting); err != nil || !some {
			return err
		}
		err := s.change(ctx, conn, func(on querier) error {
			return scanOne(ctx, on, []any{&u.Freed, &u.Cancelled, &u.Revived, &u.Worked, &u.Missed, &u.Waiting}, s.sql.Unblock, arg("most", int64(most)))
		})
		u.Missed = u.Missed || u.Worked == 0 // there was something: others have locked it
		return err
	})
	if err == nil && u.Freed > 0 {
		s.lowWater.rose()
	}
	return u, err
}

// Predecessors reads what a run of a live row gets to know of the tasks that it has waited for.
func (s *Store) Predecessors(ctx context.Context, id task.ID) (after task.After, err error) {
	err = s.do(ctx, "read what a task has waited for", func(ctx context.Context, conn *pgx.Conn) error {
		after = task.After{}
		var p task.Predecessor
		var bytes int64
		return forEach(ctx, conn, []any{(*int64)(&p.ID), &p.Type, (*string)(&p.State), (*[]byte)(&p.Result), &bytes}, func() error {
			after.Add(p, bytes)
			return nil
		}, s.sql.Predecessors, arg("id", int64(id)), arg("most", int64(task.MostAfter+1)), arg("bytes", int64(task.MostAfterBytes)))
	})
	return after, err
}

// related reads what a task waits for, and what waits for it; nil: nothing.
func (s *Store) related(ctx context.Context, conn *pgx.Conn, id task.ID, batch task.BatchID) (*store.Related, error) {
	var r store.Related
	err := queryRow(ctx, conn, s.sql.Related, arg("id", int64(id))).Scan(&r.AfterTotal, &r.AfterIf, (*int64)(&r.CancelledFor), &r.WaitingTotal,
		&r.CancelledTotal)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && r.None() {
		return nil, nil //nolint:nilnil // as most tasks
	}
	if err != nil {
		return nil, err
	}
	var n store.Neighbour
	kind := 0
	err = forEach(ctx, conn, []any{&kind, (*int64)(&n.ID), &n.Type, (*string)(&n.State), &n.Barred}, func() error {
		r.Add(kind, n)
		return nil
	}, s.sql.Neighbours, arg("id", int64(id)), arg("batch", int64(batch)), arg("most", int64(store.MostNeighbours)))
	return &r, err
}
