package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/task"
)

// Adopt claims, to be reaped, the row of an attempt that says itself that it is over.
func (s *Store) Adopt(
	ctx context.Context, session task.Session, id task.ID, f task.Fence, judge time.Duration,
) (swept *poll.Swept, answer lease.Answer, err error) {
	err = s.do(ctx, "adopt a task", func(ctx context.Context, conn *pgx.Conn) error {
		for wait := lockFirst; ; wait *= 2 {
			q := &s.sql.adopt
			rows, err := conn.Query(ctx, q.Text, q.Args(arg("id", int64(id)), arg("fence", int64(f)),
				arg("session", int64(session)), arg("length", judge.Microseconds()))...)
			if err != nil {
				return err
			}
			found, err := scanSwept(rows)
			if err != nil {
				return err
			}
			if len(found) > 0 {
				swept, answer = &found[0], lease.Applied
				return nil
			}
			var busy, ended bool
			q = &s.sql.adoptMissed
			args := q.Args(arg("id", int64(id)), arg("fence", int64(f)))
			if err := conn.QueryRow(ctx, q.Text, args...).Scan(&busy, &ended); err != nil {
				return err
			}
			switch {
			case busy:
				answer = lease.Busy
			case ended:
				answer = lease.Ended
			default:
				answer = lease.Lost
			}
			if answer != lease.Busy || wait > lockLast || !pause(ctx, wait) {
				return nil
			}
		}
	})
	return swept, answer, err
}
