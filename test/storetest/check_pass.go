package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// passChecks are about claims that pass on locks and turns before they claim. What such a claim takes is what it would take after a
// promotion; whether the store makes candidates of these rows first is up to it.
func passChecks() []Check {
	var all []Check
	for what, of := range map[string]func(*store.EnqueueRequest){
		"locks": func(q *store.EnqueueRequest) { q.Lock = "x" }, "turns": func(q *store.EnqueueRequest) { q.Sequence = "x" },
	} {
		for name, check := range map[string]func(*passRig){
			"a claim passes on":                  passOn,
			"a claim of what is passed on alone": passOnly,
			"what comes first is claimed first":  passOrder,
			"as many as are wanted":              passRoom,
			"rows of batches, regions, tenants":  passOthers,
			"what may be at work":                passUnknown,
		} {
			all = append(all, Check{what + ": " + name, func(t testing.TB, h Harness) { check(&passRig{newLockRig(t, h), of}) }})
		}
	}
	slices.SortFunc(all, func(a, b Check) int { return strings.Compare(a.Name, b.Name) })
	return all
}

type passRig struct {
	*lockRig
	of func(*store.EnqueueRequest) // gives a row its lock, or its sequence
}

// inLine inserts a row that waits for those before it.
func (r *passRig) inLine(with ...func(*store.EnqueueRequest)) task.ID {
	r.t.Helper()
	q := store.EnqueueRequest{Type: kind}
	r.of(&q)
	for _, f := range with {
		f(&q)
	}
	return r.Insert(r.t, q)[0]
}

// pass claims and passes on before.
func (r *passRig) passing(only bool, promoted int, wants ...store.Want) []task.Task {
	r.t.Helper()
	r.claims++
	p := store.Pass{Most: 100, Only: only}
	got, err := r.Claim(r.ctx, store.Claim{Session: r.session, Number: r.claims, Wants: wants, Pass: &p})
	require.NoError(r.t, err)
	require.Equal(r.t, promoted, p.Promoted.Rows)
	read, err := r.Claimed(r.ctx, r.session, r.claims)
	require.NoError(r.t, err)
	require.ElementsMatch(r.t, got, read, "what is read back")
	return got
}

func passOn(r *passRig) {
	x := []task.ID{r.inLine(), r.inLine(), r.inLine()}
	row := r.take(5)[0]
	for _, id := range x[1:] {
		free := r.insert(1)
		r.settled(finish(row))
		got := r.passing(false, 1, want(kind, 5))
		require.Equal(r.t, []task.ID{id, free[0]}, ids(got))
		row = got[0]
		require.Equal(r.t, task.StateRunning, row.State)
		require.Equal(r.t, 1, row.Attempt)
		require.EqualValues(r.t, 1, row.Fence)
		require.Equal(r.t, r.take(5), []task.Task(nil))
		r.settled(finish(got[1]))
	}
	r.settled(finish(row))
	require.Empty(r.t, r.passing(false, 0, want(kind, 5)))
	r.promoted(0)
}

func passOnly(r *passRig) {
	x := []task.ID{r.inLine(), r.inLine()}
	row := r.take(5)[0]
	free := r.insert(1)
	require.Empty(r.t, r.passing(true, 0, want(kind, 5)), "nothing is passed on")
	r.settled(finish(row))
	require.Equal(r.t, []task.ID{x[1], free[0]}, ids(r.passing(true, 1, want(kind, 5))))
}

func passOrder(r *passRig) {
	r.inLine()
	row := r.take(1)[0]
	next := r.inLine(func(q *store.EnqueueRequest) { q.Priority = 1 })
	require.Empty(r.t, r.take(5))
	first := r.Insert(r.t, store.EnqueueRequest{Type: kind, Priority: 2})
	last := r.Insert(r.t, store.EnqueueRequest{Type: kind, RunAt: r.now().Add(-time.Hour)})
	r.settled(finish(row))
	require.Equal(r.t, first, ids(r.passing(false, 1, want(kind, 1))))
	require.Equal(r.t, []task.ID{next}, ids(r.take(1)))
	require.Equal(r.t, last, ids(r.take(1)))
}

func passRoom(r *passRig) {
	var heads []task.Task
	var next []task.ID
	for _, name := range []string{"a", "b", "c"} {
		rename := func(q *store.EnqueueRequest) {
			if q.Lock != "" {
				q.Lock = name
			} else {
				q.Sequence = name
			}
		}
		r.inLine(rename)
		heads = append(heads, r.take(1)...)
		next = append(next, r.inLine(rename))
		require.Empty(r.t, r.take(1))
	}
	r.settled(finish(heads[0]), finish(heads[1]), finish(heads[2]))
	require.Equal(r.t, next[:2], ids(r.passing(false, 3, want(kind, 2))))
	require.Equal(r.t, next[2:], ids(r.take(5)))
}

func passOthers(r *passRig) {
	b, _ := r.batch(store.BatchRequest{Open: true})
	r.inLine()
	row := r.take(1)[0]
	id := r.inLine(func(q *store.EnqueueRequest) { q.Region = "sg" })
	require.Empty(r.t, r.claimIn("sg", want(kind, 5)))
	r.settled(finish(row))
	require.Empty(r.t, r.passing(false, 1, want(kind, 5)))
	got := r.claimIn("sg", want(kind, 5))
	require.Equal(r.t, []task.ID{id}, ids(got))
	for _, with := range []func(*store.EnqueueRequest){
		func(q *store.EnqueueRequest) { q.Batch = b },
		func(q *store.EnqueueRequest) { q.Lock, q.Sequence = "x", "x" },
		func(q *store.EnqueueRequest) { q.Tenant = "t" },
		func(q *store.EnqueueRequest) {},
	} {
		id := r.inLine(with)
		require.Empty(r.t, r.take(5))
		r.settled(finish(got[0]))
		got = r.passing(false, 1, want(kind, 5))
		require.Equal(r.t, []task.ID{id}, ids(got))
		r.reckoned(r.look(b))
	}
}

func passUnknown(r *passRig) {
	r.inLine()
	r.inLine()
	row := r.take(5)[0]
	end := ended(row, task.TimedOut, task.StateFailed)
	end.Next.AfterLease = true
	r.settled(end)
	require.Empty(r.t, r.passing(false, 0, want(kind, 5)))
	require.Positive(r.t, r.promote().Next)
}
