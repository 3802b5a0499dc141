package model_test

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
)

// wrongActivity is a model that writes other rows, or reads others.
type wrongActivity struct {
	*storetest.OnModel
	keep func(r *store.ActivityRow)
	as   task.Session // instead of the session that writes; 0: that one
	typ  string       // is read instead; "": the one that was asked for
	read func(a *store.Activity)
}

func (b wrongActivity) KeepActivity(ctx context.Context, session task.Session, rows []store.ActivityRow) (int, error) {
	if b.as != 0 {
		session = b.as
	}
	for i := range rows {
		if b.keep != nil {
			b.keep(&rows[i])
		}
	}
	return b.OnModel.KeepActivity(ctx, session, rows)
}

func (b wrongActivity) Activity(ctx context.Context, step store.ActivityStep, intervals int, typ string) (store.Activity, error) {
	if typ != "" && b.typ != "" {
		typ = b.typ
	}
	a, err := b.OnModel.Activity(ctx, step, intervals, typ)
	if b.read != nil {
		b.read(&a)
	}
	return a, err
}

func activitySabotages() []sabotage {
	keeping := func(f func(r *store.ActivityRow)) wrong {
		return func(m *storetest.OnModel) storetest.Harness { return wrongActivity{OnModel: m, keep: f} }
	}
	adding := func() wrong { // what was written before is added to
		sum := map[string]store.ActivityCounts{}
		return keeping(func(r *store.ActivityRow) {
			k := r.At.String() + r.Type + string(rune(r.Step))
			n := sum[k]
			n.Add(&r.ActivityCounts)
			sum[k], r.ActivityCounts = n, n
		})
	}
	return []sabotage{
		{"adds where it is to set", adding(), "activity/a write sets what was counted"},
		{"writes for one session", func(m *storetest.OnModel) storetest.Harness { return wrongActivity{OnModel: m, as: 1} }, "activity/of several sessions"},
		{"mixes up outcomes", keeping(func(r *store.ActivityRow) { r.Outcomes[3], r.Outcomes[4] = r.Outcomes[4], r.Outcomes[3] }),
			"activity/each count keeps its place"},
		{"keeps hours as minutes", keeping(func(r *store.ActivityRow) { r.Step = store.ActivityMinute }), "activity/is removed"},
		{"takes what is too late", keeping(func(r *store.ActivityRow) {
			if r.Step == store.ActivityMinute {
				r.Step = store.ActivityHour
			}
		}), "activity/late, too late and too early"},
		{"reads another type", func(m *storetest.OnModel) storetest.Harness { return wrongActivity{OnModel: m, typ: "a"} }, "activity/of one type"},
		{"leaves out the rest", func(m *storetest.OnModel) storetest.Harness {
			return wrongActivity{OnModel: m, read: func(a *store.Activity) {
				rows := a.Rows
				a.Rows = nil
				for _, r := range rows {
					if r.Type != "" {
						a.Rows = append(a.Rows, r)
					}
				}
			}}
		}, "activity/of more types than are told apart"},
		{"reads an interval less", func(m *storetest.OnModel) storetest.Harness {
			return wrongActivity{OnModel: m, read: func(a *store.Activity) {
				if len(a.Rows) > 0 && a.Rows[0].At.Equal(a.From) {
					a.Rows = a.Rows[1:]
				}
			}}
		}, "activity/at the edges of a reading"},
	}
}
