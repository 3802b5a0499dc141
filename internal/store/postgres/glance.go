package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Glance reads tasks by their ids. It leaves out those that do not exist.
func (s *Store) Glance(ctx context.Context, ids []task.ID) (list []store.Glance, err error) {
	err = s.do(ctx, "glance at tasks", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := query(ctx, conn, s.sql.Glance, arg("ids", numbers(ids)))
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (g store.Glance, err error) {
			err = row.Scan((*int64)(&g.ID), &g.Type, (*string)(&g.State), &g.Attempt, &g.Deferrals, (*int64)(&g.Fence), &g.RunAt, &g.LeaseEnd,
				&g.CancelRequested, &g.FinishedAt, (*[]byte)(&g.Progress), &g.Message, (*int64)(&g.FailedTask))
			return g, err
		})
		return err
	})
	return list, err
}

// Newest reads the live tasks with the highest ids, the finished ones and the followers: n of each at most.
func (s *Store) Newest(ctx context.Context, n int) (list []store.Mark, err error) {
	err = s.do(ctx, "look at the newest tasks", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := query(ctx, conn, s.sql.Newest, arg("n", n))
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (m store.Mark, err error) {
			err = row.Scan((*int64)(&m.ID), &m.Type, (*string)(&m.State), (*int64)(&m.Fence))
			return m, err
		})
		return err
	})
	return list, err
}
