package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// Left looks for what others may have left to do.
func (s *Store) Left(ctx context.Context) (left store.Left, err error) {
	err = s.do(ctx, "look for what others have left", func(ctx context.Context, conn *pgx.Conn) error {
		left = store.Left{}
		var typ, by, reason *string
		var at *time.Time
		return forEach(ctx, conn, []any{&left.Turns, &left.Ends, &left.Waiting, &left.Changes, &typ, &at, &by, &reason}, func() error {
			if typ != nil {
				left.Paused = append(left.Paused, store.TypePause{Type: *typ, At: *at, By: *by, Reason: *reason})
			}
			return nil
		}, s.sql.Left)
	})
	return left, err
}
