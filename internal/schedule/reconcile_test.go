package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

func TestReconcile(t *testing.T) {
	t.Parallel()
	of := func(number int64, task string) store.Declaration {
		return store.Declaration{Number: number, Spec: Spec{Name: "a", Task: task}}
	}
	all := func(list ...store.Declaration) []store.Declaration { return list }
	hcl := store.UnsettledSchedule{Name: "a", Exists: true, Source: store.SourceHCL, Task: "x", Declared: 1, Version: 7}
	with := func(change func(*store.UnsettledSchedule)) store.UnsettledSchedule {
		u := hcl
		change(&u)
		return u
	}
	for name, c := range map[string]struct {
		u       store.UnsettledSchedule
		to      int64 // 0: it is parked; -1: nothing is done
		refused []string
	}{
		"new":                     {store.UnsettledSchedule{Name: "a", Present: all(of(3, "x"))}, 3, nil},
		"new, with two types":     {store.UnsettledSchedule{Name: "a", Present: all(of(3, "x"), of(4, "y"), of(5, "x"))}, 5, []string{"y"}},
		"newer":                   {with(func(u *store.UnsettledSchedule) { u.Present = all(of(1, "x"), of(2, "x")) }), 2, nil},
		"older again":             {with(func(u *store.UnsettledSchedule) { u.Declared, u.Present = 2, all(of(1, "x")) }), 1, nil},
		"newer, while it is due":  {with(func(u *store.UnsettledSchedule) { u.Due, u.Present = true, all(of(2, "x")) }), -1, nil},
		"nobody":                  {hcl, 0, nil},
		"nobody, while it is due": {with(func(u *store.UnsettledSchedule) { u.Due = true }), 0, nil},
		"nobody, and parked":      {with(func(u *store.UnsettledSchedule) { u.Parked = true }), -1, nil},
		"back":                    {with(func(u *store.UnsettledSchedule) { u.Parked, u.Present = true, all(of(1, "x")) }), 1, nil},
		"another type only":       {with(func(u *store.UnsettledSchedule) { u.Present = all(of(2, "y")) }), 0, []string{"y"}},
		"another type, parked": {
			with(func(u *store.UnsettledSchedule) { u.Parked, u.Present = true, all(of(2, "y")) }), -1, []string{"y"},
		},
		"another type beside it": {with(func(u *store.UnsettledSchedule) { u.Present = all(of(1, "x"), of(2, "y")) }), -1, []string{"y"}},
		"of an application": {
			with(func(u *store.UnsettledSchedule) {
				u.Source, u.Declared, u.Present = store.SourceSQL, 0, all(of(1, "x"))
			}), -1, []string{"x"},
		},
	} {
		change, refused := Reconcile(&c.u)
		var types []string
		for _, r := range refused {
			require.NotEmpty(t, r.Reason, name)
			types = append(types, r.Task)
		}
		require.Equal(t, c.refused, types, name)
		switch {
		case c.to < 0:
			require.Nil(t, change, name)
			continue
		case c.to == 0:
			require.Nil(t, change.To, name)
		default:
			require.Equal(t, c.to, change.To.Number, name)
		}
		require.Equal(t, c.u.Exists, change.Exists, name)
		require.Equal(t, c.u.Version, change.Version, name)
	}
}
