package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// expireBatches reports whether a day's table may go: all batches that have rows in it have ended. Then they are marked as having rows
// past their retention.
func (s *Store) expireBatches(ctx context.Context, t dayTable) (free bool, err error) {
	err = s.do(ctx, "look for batches", func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			batches, err := collectIDs(tx.Query(ctx, t.of(&s.sql.dayBatches).Text))
			if err != nil || len(batches) == 0 {
				free = err == nil
				return err
			}
			ended, err := collectIDs(tx.Query(ctx, s.sql.lockEnded.Text, s.sql.lockEnded.Args(arg("ids", batches))...))
			if err != nil {
				return err
			}
			var all int
			q := &s.sql.countBatches
			if err := tx.QueryRow(ctx, q.Text, q.Args(arg("ids", batches))...).Scan(&all); err != nil {
				return err
			}
			if free = len(ended) == all; !free {
				return nil
			}
			q = &s.sql.markExpired
			_, err = tx.Exec(ctx, q.Text, q.Args(arg("ids", batches))...)
			return err
		})
	})
	return free, err
}

// expireRows removes from a day that has to stay what belongs to no batch: else one batch that never ends would keep all that
// finished while it was there.
func (s *Store) expireRows(ctx context.Context, t dayTable) (removed int64, err error) {
	q := t.of(&s.sql.expireRows)
	for last := new(int64); last != nil; {
		var n int64
		err := s.do(ctx, "remove old tasks", func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, q.Text, q.Args(arg("after", *last), arg("limit", forgetStep))...).Scan(&last, &n)
		})
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}
