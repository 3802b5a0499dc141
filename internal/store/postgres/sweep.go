package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Sweep claims dead rows, to be reaped.
func (s *Store) Sweep(
	ctx context.Context, session task.Session, limit int, reapFor time.Duration, view func() store.View,
) (dead []store.Reaped, err error) {
	if limit <= 0 {
		return nil, ctx.Err()
	}
	err = s.do(ctx, "sweep", func(ctx context.Context, conn *pgx.Conn) error {
		v := view()
		silent, seen := make([]int64, len(v.Silent)), make([]time.Time, len(v.Silent))
		for i, s := range v.Silent {
			silent[i], seen[i] = int64(s.Session), s.SeenAt
		}
		rows, err := query(ctx, conn, s.sql.Sweep, arg("session", int64(session)), arg("calm", v.Calm.Microseconds()), arg("now", v.Now),
			arg("tolerance", store.JumpTolerance.Microseconds()), arg("limit", int64(limit)), arg("length", reapFor.Microseconds()),
			arg("silent", silent), arg("silent_seen", seen), arg("watch_for", store.WatchFor.Microseconds()))
		if err != nil {
			return err
		}
		dead, err = scanReaped(rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	return dead, nil
}

func scanReaped(rows pgx.Rows) ([]store.Reaped, error) {
	defer rows.Close()
	var dead []store.Reaped
	var r taskRow
	for rows.Next() && r.err == nil {
		d := store.Reaped{Task: r.next(rows), Present: r.bool(), Detached: r.bool()}
		d.RanFence, d.CancelRequested, d.Left = d.Fence-1, r.bool(), microseconds(r.int(0))
		dead = append(dead, d)
	}
	rows.Close()
	return dead, cmp.Or(rows.Err(), r.err)
}
