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
			arg("silent", silent), arg("silent_seen", seen))
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

// Holders looks at the sessions that hold rows.
func (s *Store) Holders(ctx context.Context, session task.Session) (holders store.Holders, err error) {
	err = s.do(ctx, "look at sessions", func(ctx context.Context, conn *pgx.Conn) error {
		holders = store.Holders{}
		var other *int64
		var seen *time.Time
		var presence *time.Duration
		var expired bool
		return forEach(ctx, conn, []any{&other, &seen, &presence, &expired}, func() error {
			holders.Expired = holders.Expired || expired
			if seen != nil && task.Session(*other) != session {
				holders.Others = append(holders.Others, store.Sighting{Session: task.Session(*other), SeenAt: *seen, Presence: *presence})
			}
			return nil
		}, s.sql.Holders)
	})
	return holders, err
}

func scanReaped(rows pgx.Rows) ([]store.Reaped, error) {
	defer rows.Close()
	var dead []store.Reaped
	var r taskRow
	for rows.Next() && r.err == nil {
		d := store.Reaped{Task: r.next(rows), Present: r.bool(), Detached: r.bool()}
		d.RanFence, d.CancelRequested, d.Left = d.Fence-1, r.bool(), microseconds(r.int(0))
		d.RanSession, d.RanAgent = task.Session(r.int(0)), r.text("")
		dead = append(dead, d)
	}
	rows.Close()
	return dead, cmp.Or(rows.Err(), r.err)
}
