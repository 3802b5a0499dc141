package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Adopt claims, to be reaped, the row of an attempt that says itself that it is over.
func (s *Store) Adopt(
	ctx context.Context, session task.Session, id task.ID, f task.Fence, reapFor time.Duration,
) (adopted *store.Reaped, answer store.Answer, err error) {
	err = s.do(ctx, "adopt a task", func(ctx context.Context, conn *pgx.Conn) error {
		for wait := lockFirst; ; wait *= 2 {
			rows, err := query(ctx, conn, s.sql.Adopt, arg("id", int64(id)), arg("fence", int64(f)),
				arg("session", int64(session)), arg("length", reapFor.Microseconds()))
			if err != nil {
				return err
			}
			found, err := scanReaped(rows)
			if err != nil {
				return err
			}
			if len(found) > 0 {
				adopted, answer = &found[0], store.Applied
				return nil
			}
			var busy, ended bool
			missed := queryRow(ctx, conn, s.sql.AdoptMissed, arg("id", int64(id)), arg("fence", int64(f)))
			if err := missed.Scan(&busy, &ended); err != nil {
				return err
			}
			switch {
			case busy:
				answer = store.Busy
			case ended:
				answer = store.Ended
			default:
				answer = store.Lost
			}
			if answer != store.Busy || wait > lockLast || !pause(ctx, wait) {
				return nil
			}
		}
	})
	return adopted, answer, err
}
