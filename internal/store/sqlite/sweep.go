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

// Sweep claims rows of expired leases for the session, which decides what becomes of them within reapFor.
func (s *Store) Sweep(
	ctx context.Context, session task.Session, limit int, reapFor time.Duration, view func() store.View,
) ([]store.Reaped, error) {
	var reaped []store.Reaped
	err := s.update(ctx, "sweep tasks", func(t *tx) error {
		v := view()
		if t.now.Sub(v.Now).Abs() > store.JumpTolerance {
			return nil
		}
		found := map[task.ID]store.Reaped{}
		var ids []task.ID
		err := t.query(func(r *sql.Rows) error {
			var d store.Reaped
			err := r.Scan(&d.ID, &d.Present, &d.Detached)
			ids, found[d.ID] = append(ids, d.ID), d
			return err
		}, t.sql.Expired, arg("now", stamp(t.now)), arg("soon", stamp(t.now.Add(time.Second))), arg("session", int64(session)),
			arg("calm", v.Calm.Seconds()), arg("limit", limit),
			arg("silent", silentList(v.Silent)))
		if err != nil || len(ids) == 0 {
			return err
		}
		return t.query(func(r *sql.Rows) error {
			row, err := t.scanReaped(r)
			row.Present, row.Detached = found[row.ID].Present, found[row.ID].Detached
			reaped = append(reaped, row)
			return err
		}, t.sql.Reap, arg("session", int64(session)), arg("until", stamp(t.now.Add(reapFor))), arg("ids", jsonList(ids)))
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(reaped, func(a, b store.Reaped) int { return cmp.Compare(a.ID, b.ID) })
	return reaped, nil
}

// silentList is the parameter silent of the statement expired.
func silentList(silent []store.Sighting) string {
	type heartbeat struct {
		Session int64  `json:"session"`
		Seen    string `json:"seen"`
	}
	list := make([]heartbeat, len(silent))
	for i, s := range silent {
		list[i] = heartbeat{int64(s.Session), stamp(s.SeenAt)}
	}
	text, _ := json.Marshal(list) // numbers and times always are JSON
	return string(text)
}

// scanReaped reads a row of the statements reap and adopt.
func (t *tx) scanReaped(rows *sql.Rows) (store.Reaped, error) {
	var r record
	asked := false
	var d store.Reaped
	if err := rows.Scan(append(r.fields(), &asked, &d.RanSession, &d.RanAgent)...); err != nil {
		return store.Reaped{}, err
	}
	d.Task = r.complete()
	d.CancelRequested = asked
	d.RanFence, d.Left = d.Fence-1, d.Deadline.Sub(t.now)
	return d, nil
}

// Holders looks at the sessions that hold rows. It does not take the lock, and mostly nothing has expired.
func (s *Store) Holders(ctx context.Context, session task.Session) (holders store.Holders, err error) {
	now := s.now()
	err = s.view(ctx, "look at sessions", func(t *snapshot) error {
		return t.query(func(r *sql.Rows) error {
			var o store.Sighting
			var until time.Time
			var expired bool
			if err := r.Scan(numberOf[task.Session]{&o.Session}, timeOf{&o.SeenAt}, timeOf{&until}, truthOf{&expired}); err != nil {
				return err
			}
			holders.Expired = holders.Expired || expired
			if o.Session != session && !o.SeenAt.IsZero() {
				o.Presence = until.Sub(o.SeenAt)
				holders.Others = append(holders.Others, o)
			}
			return nil
		}, t.sql.Holders, arg("now", stamp(now)), arg("soon", stamp(now.Add(time.Second))))
	})
	return holders, err
}
