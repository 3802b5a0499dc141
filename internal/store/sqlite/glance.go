package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Glance reads tasks by their ids. It leaves out those that do not exist.
func (s *Store) Glance(ctx context.Context, ids []task.ID) (list []store.Glance, err error) {
	err = s.view(ctx, "glance at tasks", func(t *snapshot) error {
		return t.query(func(r *sql.Rows) error {
			var g store.Glance
			var lease, asked, finished time.Time
			err := r.Scan(&g.ID, textOf[string]{&g.Type}, textOf[task.State]{&g.State}, numberOf[int]{&g.Attempt}, numberOf[int]{&g.Deferrals}, &g.Fence,
				timeOf{&g.RunAt}, timeOf{&lease}, timeOf{&asked}, timeOf{&finished}, jsonOf{&g.Progress}, textOf[string]{&g.Message}, &g.FailedTask)
			g.LeaseEnd, g.CancelRequested, g.FinishedAt = pointer(lease), pointer(asked), pointer(finished)
			g.NotJSON = len(g.Progress) > 0 && !json.Valid(g.Progress)
			g.Progress = showable(g.Progress)
			list = append(list, g)
			return err
		}, t.sql.Glance, arg("ids", jsonList(ids)))
	})
	slices.SortFunc(list, func(a, b store.Glance) int { return cmp.Compare(a.ID, b.ID) })
	return list, err
}

// Newest reads the live tasks with the highest ids, the finished ones and the followers: n of each at most.
func (s *Store) Newest(ctx context.Context, n int) (list []store.Mark, err error) {
	err = s.view(ctx, "look at the newest tasks", func(t *snapshot) error {
		return t.query(func(r *sql.Rows) error {
			var m store.Mark
			err := r.Scan(&m.ID, textOf[string]{&m.Type}, textOf[task.State]{&m.State}, &m.Fence)
			list = append(list, m)
			return err
		}, t.sql.Newest, arg("n", n))
	})
	return list, err
}
