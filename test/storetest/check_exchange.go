package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func exchangeChecks() []Check {
	return []Check{
		{"the places that ends leave are taken at once", exchangePlaces},
		{"what leaves no place", exchangeNone},
		{"where the limit has become lower", exchangeLowered},
		{"agents that exchange at once", exchangeConcurrent},
		{"a crash loses and doubles no row", exchangeCrashes},
	}
}

// exchange settles ends, has all of them applied, and claims as many rows.
func (r *rig) exchange(ends ...store.Settlement) []task.Task {
	r.t.Helper()
	got, answers := r.exchanges(want(kind, len(ends)), ends...)
	require.Equal(r.t, same(store.Applied, len(ends)), answers)
	return got
}

func (r *rig) exchanges(w store.Want, ends ...store.Settlement) ([]task.Task, []store.Answer) {
	r.t.Helper()
	r.claims++
	got, answers, err := r.Exchange(r.ctx, store.Claim{Session: r.session, Number: r.claims, Wants: []store.Want{w}}, ends)
	require.NoError(r.t, err)
	return got, answers
}

func exchangePlaces(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	all := r.insert(10)
	r.limits(limited(kind, 3))
	o.limits(limited(kind, 3))
	first := r.claim(want(kind, 5))
	require.Equal(t, all[:3], ids(first))
	r.learns()
	got := r.exchange(finish(first[0]), finish(first[2]))
	require.Equal(t, all[3:5], ids(got))
	require.Equal(t, task.StateSucceeded, r.get(first[0].ID).State)
	read, err := r.Claimed(r.ctx, r.session, r.claims)
	require.NoError(t, err)
	require.Equal(t, all[3:5], ids(read))
	require.Empty(t, o.claim(want(kind, 5)))
	got, answers := r.exchanges(want(kind, 2), finish(first[0]), finish(first[2]))
	require.Empty(t, got, "what had ended before leaves no place")
	require.Equal(t, same(store.Ended, 2), answers)
	r.settled(finish(read[0]))
	require.Len(t, o.claim(want(kind, 5)), 1)
	require.Empty(t, r.claim(want(kind, 5)))
}

func exchangeNone(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	r.insert(10)
	r.limits(limited(kind, 2))
	rows := r.claim(want(kind, 5))
	require.Len(t, rows, 2)
	unknown := ended(rows[0], task.TimedOut, task.StateFailed)
	unknown.Next.AfterLease = true
	require.Empty(t, r.exchange(unknown), "it may still be at work")
	require.Empty(t, o.claim(want(kind, 5)))
	got, answers := o.exchanges(want(kind, 1), finish(rows[1]))
	require.Empty(t, got)
	require.Equal(t, same(store.Lost, 1), answers, "another session's")
	r.exchange(retry(rows[1], window)) // a place that an ordinary claim takes
	require.LessOrEqual(t, len(o.claim(want(kind, 5))), 1)
	require.Empty(t, o.claim(want(kind, 5)))
}

func exchangeLowered(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(10)
	r.limits(limited(kind, 3))
	rows := r.claim(want(kind, 5))
	require.Len(t, rows, 3)
	r.limits(limited(kind, 2))
	require.Empty(t, r.exchange(finish(rows[0])))
	require.Empty(t, r.claim(want(kind, 5)))
	require.Len(t, r.exchange(finish(rows[1])), 1)
	require.Empty(t, r.claim(want(kind, 5)))
}

func exchangeConcurrent(t testing.TB, h Harness) {
	r := newRig(t, h)
	const most = 3
	all := r.insert(100)
	agents := []*rig{r}
	for range 3 {
		agents = append(agents, r.other("another"))
	}
	for _, o := range agents {
		o.limits(limited(kind, most))
	}
	var seen tally
	var running, finished atomic.Int64
	together(agents, func(ctx context.Context, r *rig) error {
		var held []task.Task
		for finished.Load() < int64(len(all)) {
			r.claims++
			c := store.Claim{Session: r.session, Number: r.claims, Wants: []store.Want{want(kind, 2)}}
			var got []task.Task
			var err error
			if len(held) == 0 {
				got, err = r.Claim(ctx, c)
			} else { // one at a time, so that the agents mix
				c.Wants[0].N = 1
				running.Add(-1)
				got, _, err = r.Exchange(ctx, c, []store.Settlement{finish(held[0])})
				held = held[1:]
				finished.Add(1)
			}
			if err != nil {
				return err
			}
			if n := running.Add(int64(len(got))); n > most {
				return fmt.Errorf("%d tasks run", n)
			}
			seen.add(got...)
			held = append(held, got...)
		}
		return nil
	})
	seen.once(t, all)
}

func exchangeCrashes(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	r.insert(100)
	r.limits(limited(kind, 2))
	rows := r.claim(want(kind, 2))
	for _, point := range r.Failpoints() {
		ends := []store.Settlement{finish(rows[0]), finish(rows[1])}
		hit := r.crash(point)
		r.claims++
		_, _, err := r.Exchange(r.ctx, store.Claim{Session: r.session, Number: r.claims, Wants: []store.Want{want(kind, 2)}}, ends)
		r.Fail(nil)
		if hit() { // each store has some that only other calls come by
			require.ErrorIs(t, err, errCrash, "%q", point)
		}
		got, err := r.Claimed(r.ctx, r.session, r.claims)
		require.NoError(t, err)
		others := o.claim(want(kind, 5))
		require.LessOrEqual(t, len(got)+len(others), 2, "%q: there are no more places than there were", point)
		answers := r.settle(ends...)
		require.Equal(t, same(answers[0], 2), answers, "%q: all or none", point)
		if len(got) > 0 {
			require.Equal(t, same(store.Ended, 2), answers, "%q", point)
		}
		for _, row := range others {
			o.settled(finish(row))
		}
		rows = append(got, r.claim(want(kind, 2))...)
		require.Len(t, rows, 2, "%q", point)
	}
}
