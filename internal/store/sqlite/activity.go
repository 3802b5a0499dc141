package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// KeepActivity sets what a session has counted.
func (s *Store) KeepActivity(ctx context.Context, session task.Session, rows []store.ActivityRow) (dropped int, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	err = s.update(ctx, "write the activity", func(t *tx) error {
		dropped = 0
		for i := range rows {
			r := &rows[i]
			if r.At.After(t.now.Add(store.ActivityAhead)) || !r.At.After(t.now.Add(-r.Step.Kept())) {
				dropped++
				continue
			}
			if _, err := t.exec(t.sql.KeepActivity, arg("step", int(r.Step)), arg("at", stamp(r.At)), arg("type", r.Type),
				arg("session", int64(session)), arg("started", store.ActivityCount(r.Started())), arg("ended", store.ActivityCount(r.Ended())),
				arg("outcomes", store.ActivityList(r.Outcomes[:], "[", "]")), arg("latency", store.ActivityList(r.Latency[:], "[", "]"))); err != nil {
				return err
			}
		}
		return nil
	})
	return dropped, err
}

// Activity returns what all sessions have counted in so many intervals up to now.
func (s *Store) Activity(ctx context.Context, step store.ActivityStep, intervals int, typ string) (a store.Activity, err error) {
	err = s.view(ctx, "read the activity", func(t *snapshot) error {
		var last time.Time
		a.Now = s.now().UTC()
		a.From, last = store.ActivityWindow(step, intervals, a.Now)
		a.Rows = nil
		args := []sqltext.Arg{arg("step", int(step)), arg("from", stamp(a.From)), arg("last", stamp(last))}
		top, err := t.activityTop(typ, args)
		if err != nil {
			return err
		}
		rest := -1 // place of the sum of the other types of the same interval
		return t.query(func(r *sql.Rows) error {
			var sum store.ActivitySum
			var outcomes, latency sql.RawBytes
			if err := r.Scan(timeOf{&sum.At}, &sum.Type, &outcomes, &latency); err != nil || sum.At.IsZero() {
				return err
			}
			store.AddLists(sum.Outcomes[:], outcomes)
			store.AddLists(sum.Latency[:], latency)
			if top[sum.Type] {
				a.Rows = append(a.Rows, sum)
				return nil
			}
			if rest < 0 || !a.Rows[rest].At.Equal(sum.At) {
				rest, sum.Type = len(a.Rows), ""
				a.Rows = append(a.Rows, sum)
				return nil
			}
			a.Rows[rest].Add(&sum.ActivityCounts)
			return nil
		}, t.sql.Activity, append(args, arg("type", typ))...)
	})
	slices.SortFunc(a.Rows, func(x, y store.ActivitySum) int {
		if c := x.At.Compare(y.At); c != 0 {
			return c
		}
		return strings.Compare(x.Type, y.Type)
	})
	return a, err
}

// activityTop returns the types that are told apart: that one, or those with the most attempts.
func (t *snapshot) activityTop(typ string, args []sqltext.Arg) (map[string]bool, error) {
	if typ != "" {
		return map[string]bool{typ: true}, nil
	}
	top := map[string]bool{}
	err := t.query(func(r *sql.Rows) error {
		var name string
		err := r.Scan(&name)
		top[name] = true
		return err
	}, t.sql.ActivityTop, append(args, arg("top", store.ActivityTop))...)
	return top, err
}

// noTime is after every time in the file.
const noTime = "9999-12-31T23:59:59.999Z"

// forgetActivity removes what is past its time, or what no clock may have shown yet, step by step.
func (s *Store) forgetActivity(ctx context.Context) error {
	for _, step := range []store.ActivityStep{store.ActivityMinute, store.ActivityHour} {
		err := s.remove(ctx, "remove old activity", func(t *tx) (int64, error) {
			old, err := t.exec(t.sql.DeleteActivity, arg("step", int(step)), arg("from", ""), arg("last", stamp(t.now.Add(-step.Kept()))),
				arg("limit", removeStep))
			if err != nil {
				return 0, err
			}
			ahead := t.now.Add(store.ActivityAhead + time.Millisecond)
			n, err := t.exec(t.sql.DeleteActivity, arg("step", int(step)), arg("from", stamp(ahead)), arg("last", noTime), arg("limit", removeStep))
			return max(n, old), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
