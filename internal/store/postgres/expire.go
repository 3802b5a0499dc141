package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// expireBatches reports whether a day's table may go: no sequence waits for a failure in it, and all batches that
// have rows in it have ended. Then they are marked as having rows
// past their retention.
func (s *Store) expireBatches(ctx context.Context, t dayTable) (free bool, err error) {
	err = s.do(ctx, "look for batches", func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			var failures bool
			if err := queryRow(ctx, tx, t.of(s.sql.DayFailures)).Scan(&failures); err != nil || failures {
				return err
			}
			batches, err := collectIDs(query(ctx, tx, t.of(s.sql.DayBatches)))
			if err != nil || len(batches) == 0 {
				free = err == nil
				return err
			}
			ended, err := collectIDs(query(ctx, tx, s.sql.LockEnded, arg("ids", batches)))
			if err != nil {
				return err
			}
			var all int
			if err := queryRow(ctx, tx, s.sql.CountBatches, arg("ids", batches)).Scan(&all); err != nil {
				return err
			}
			if free = len(ended) == all; !free {
				return nil
			}
			return exec(ctx, tx, s.sql.MarkExpired, arg("ids", batches))
		})
	})
	return free, err
}

// namedRows returns which rows of a day waiting rows name, which read their states once all of those have ended.
func (s *Store) namedRows(ctx context.Context, t dayTable) (ids []int64, err error) {
	err = s.do(ctx, "look for rows that others wait for", func(ctx context.Context, conn *pgx.Conn) error {
		ids, err = collectIDs(query(ctx, conn, t.of(s.sql.DayNamed)))
		return err
	})
	return ids, err
}

// expireRows removes from a day that has to stay what belongs to no batch, and what no waiting row names: else one batch that never
// ends would keep all that finished while it was there.
func (s *Store) expireRows(ctx context.Context, t dayTable, keep []int64) (removed int64, err error) {
	q := t.of(s.sql.ExpireRows)
	for last := new(int64); last != nil; {
		var n int64
		err := s.do(ctx, "remove old tasks", func(ctx context.Context, conn *pgx.Conn) error {
			return queryRow(ctx, conn, q, arg("after", *last), arg("limit", forgetStep), arg("keep", keep)).Scan(&last, &n)
		})
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}
