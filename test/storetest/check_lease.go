package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func leaseChecks() []Check {
	return []Check{
		{"a renewal moves the end", renewMoves},
		{"an earlier end is taken only where it is exact", renewGreatest},
		{"a renewal counts from the progress", renewAge},
		{"renewals are answered in order", renewOrder},
		{"a renewed row is not reaped", renewKeeps},
		{"a row that is kept is renewed", renewKept},
		{"a row that is kept is busy, not lost", settleBusy},
		{"a kept row holds up no sweep", sweepKept},
		{"presence returns what is held", presentHeld},
		{"presence lengthens no lease", presentShortens},
		{"presence revives a removed session", presentRevives},
		{"sessions are never used again", sessionsDiffer},
		{"a repeated presence and leave", presentRepeats},
		{"policies are kept", policies},
	}
}

// renew renews one row and returns how far ahead its end is then.
func (r *rig) renew(w store.Renewal) (ahead time.Duration) {
	r.t.Helper()
	got, err := r.Renew(r.ctx, r.session, []store.Renewal{w})
	require.NoError(r.t, err)
	require.Equal(r.t, same(store.Applied, 1), got)
	end := r.get(w.ID).LeaseEnd
	require.NotNil(r.t, end)
	return end.Sub(r.now())
}

func renewMoves(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.Advance(t, window/2)
	before := r.get(row.ID)
	ahead := r.renew(store.Renewal{ID: row.ID, Fence: row.Fence, Window: window})
	require.InDelta(t, window, ahead, float64(slack))
	after := r.get(row.ID)
	before.LeaseEnd = after.LeaseEnd
	require.Equal(t, before, after, "and nothing else")
	ahead = r.renew(store.Renewal{ID: row.ID, Fence: row.Fence, Window: window})
	require.InDelta(t, window, ahead, float64(slack), "a repeat does nothing more")
}

func renewGreatest(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	ahead := r.renew(store.Renewal{ID: row.ID, Fence: row.Fence, Window: window / 2})
	require.InDelta(t, window, ahead, float64(slack), "a later end stays")
	ahead = r.renew(store.Renewal{ID: row.ID, Fence: row.Fence, Window: window / 2, Exact: true})
	require.InDelta(t, window/2, ahead, float64(slack), "unless it is exact")
	ahead = r.renew(store.Renewal{ID: row.ID, Fence: row.Fence, Window: 2 * window, Exact: true})
	require.InDelta(t, 2*window, ahead, float64(slack))
	ahead = r.renew(store.Renewal{ID: row.ID, Fence: row.Fence, Window: window / 2, Most: 3 * window})
	require.InDelta(t, 2*window, ahead, float64(slack), "it is no further ahead than it may be")
	ahead = r.renew(store.Renewal{ID: row.ID, Fence: row.Fence, Window: window / 2, Most: window})
	require.InDelta(t, window, ahead, float64(slack), "it was")
	ahead = r.renew(store.Renewal{ID: row.ID, Fence: row.Fence, Window: 2 * window, Most: window})
	require.InDelta(t, 2*window, ahead, float64(slack), "what is asked for is given")
}

func renewAge(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	ahead := r.renew(store.Renewal{ID: row.ID, Fence: row.Fence, Age: window / 2, Window: 2 * window})
	require.InDelta(t, window*3/2, ahead, float64(slack))
	ahead = r.renew(store.Renewal{ID: row.ID, Fence: row.Fence, Age: window, Window: 2 * window})
	require.InDelta(t, window*3/2, ahead, float64(slack), "older progress takes nothing away")
	ahead = r.renew(store.Renewal{ID: row.ID, Fence: row.Fence, Age: window, Window: 2 * window, Exact: true})
	require.InDelta(t, window, ahead, float64(slack))
	ahead = r.renew(store.Renewal{ID: row.ID, Fence: row.Fence, Age: window, Window: window / 2, Exact: true})
	require.InDelta(t, -window/2, ahead, float64(slack), "even into the past")
	require.Len(t, r.sweep(10), 1)
}

func renewOrder(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(3)
	rows := r.claim(want(kind, 3))
	r.settled(finish(rows[1]))
	ask := func(i int, fence task.Fence) store.Renewal {
		return store.Renewal{ID: rows[i].ID, Fence: fence, Window: 2 * window}
	}
	got, err := r.Renew(r.ctx, r.session, []store.Renewal{
		ask(2, rows[2].Fence), ask(1, rows[1].Fence), ask(0, rows[0].Fence), ask(2, rows[2].Fence+1),
	})
	require.NoError(t, err)
	require.Equal(t, []store.Answer{store.Applied, store.Lost, store.Applied, store.Lost}, got)
}

func renewKeeps(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	r.insert(2)
	rows := r.claim(want(kind, 2))
	r.Advance(t, window-time.Minute)
	r.renew(store.Renewal{ID: rows[0].ID, Fence: rows[0].Fence, Window: window})
	r.Advance(t, 2*time.Minute)
	r.present()
	o.present()
	reaped := o.sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, rows[1].ID, reaped[0].ID)
}

func renewKept(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	release := r.LockRow(t, row.ID)
	if release == nil {
		return // no locks on rows
	}
	defer release()
	ahead := r.renew(store.Renewal{ID: row.ID, Fence: row.Fence, Window: 2 * window})
	require.InDelta(t, 2*window, ahead, float64(slack), "hold lets renewals pass")
}

func settleBusy(t testing.TB, h Harness) {
	r := newRig(t, h)
	for _, end := range []func(task.Task) store.Settlement{
		finish, release, func(row task.Task) store.Settlement { return retry(row, time.Hour) },
	} {
		row, beside, third := r.held(), r.held(), r.held()
		release := r.LockRow(t, row.ID)
		if release == nil {
			return // no locks on rows
		}
		defer release()
		require.Equal(t, []store.Answer{store.Applied, store.Busy, store.Applied},
			r.settle(finish(beside), end(row), retry(third, time.Hour)))
		require.Equal(t, task.StateRunning, r.state(row.ID))
		require.Equal(t, task.StateSucceeded, r.state(beside.ID))
		release()
		require.Equal(t, []store.Answer{store.Applied, store.Ended}, r.settle(end(row), finish(beside)))
		require.Equal(t, end(row).Next.State, r.state(row.ID))
		if end(row).Silent {
			r.settled(finish(r.claim(want(kind, 1))[0]))
		}
	}
}

func sweepKept(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(2)
	rows := r.claim(want(kind, 2))
	release := r.LockRow(t, rows[0].ID)
	if release == nil {
		return // no locks on rows
	}
	defer release()
	r.Advance(t, later)
	r.present()
	reaped := r.sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, rows[1].ID, reaped[0].ID)
	release()
	r.settled(finish(rows[0]))
}

// present3 is what the session holds: id, fence and claim of each.
func (r *rig) present3() []store.Held {
	r.t.Helper()
	var out []store.Held
	for _, h := range r.present().Held {
		out = append(out, store.Held{ID: h.ID, Fence: h.Fence, Claim: h.Claim})
	}
	return out
}

func presentHeld(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	require.Empty(t, r.present3())
	r.insert(5)
	first, second, theirs := r.claim(want(kind, 2)), r.claim(want(kind, 1)), o.claim(want(kind, 1))
	require.ElementsMatch(t, []store.Held{
		{ID: first[0].ID, Fence: 1, Claim: 1}, {ID: first[1].ID, Fence: 1, Claim: 1}, {ID: second[0].ID, Fence: 1, Claim: 2},
	}, r.present3())
	require.ElementsMatch(t, []store.Held{{ID: theirs[0].ID, Fence: 1, Claim: 1}}, o.present3())

	r.settled(finish(first[0]), retry(first[1], time.Hour))
	require.Equal(t, []store.Held{{ID: second[0].ID, Fence: 1, Claim: 2}}, r.present3())
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.Len(t, o.sweep(10), 1)
	require.ElementsMatch(t,
		[]store.Held{{ID: theirs[0].ID, Fence: 1, Claim: 1}, {ID: second[0].ID, Fence: 2, Claim: 0}},
		o.present3(), "a reaped row is held by no claim")
	require.Empty(t, r.present3())
}

func presentShortens(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	end := row.LeaseEnd
	r.unchanged(row.ID, func() { r.present() })
	require.WithinDuration(t, end, *r.get(row.ID).LeaseEnd, time.Millisecond)
	for range 3 {
		r.Advance(t, 4*time.Minute)
		r.present()
	}
	reaped := r.sweep(10)
	require.Len(t, reaped, 1, "the lease is over, however present its session is")
	require.True(t, reaped[0].Present)
}

func presentRevives(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(1)
	w := want(kind, 1)
	w.Window = 30 * 24 * time.Hour
	row := r.claim(w)[0]
	r.Advance(t, 8*24*time.Hour)
	_, err := r.Maintain(r.ctx, 24*time.Hour)
	require.NoError(t, err)
	stats, err := r.Stats(r.ctx)
	require.NoError(t, err)
	require.Zero(t, stats.AgentsPresent)

	require.Equal(t, []store.Held{{ID: row.ID, Fence: row.Fence, Claim: 1}}, r.present3())
	stats, err = r.Stats(r.ctx)
	require.NoError(t, err)
	require.Equal(t, 1, stats.AgentsPresent)
	require.Equal(t, "first", r.get(row.ID).Agent)
	o := r.other("second")
	require.NotEqual(t, r.session, o.session)
	require.Empty(t, o.sweep(10), "its row lives again")
	r.settled(finish(row))
}

func sessionsDiffer(t testing.TB, h Harness) {
	r := newRig(t, h)
	seen := map[task.Session]bool{r.session: true}
	for range 5 {
		s := r.join("first")
		require.False(t, seen[s], "session %d", s)
		seen[s] = true
		require.NoError(t, r.Leave(r.ctx, s))
	}
	r.Advance(t, 8*24*time.Hour)
	_, err := r.Maintain(r.ctx, 24*time.Hour)
	require.NoError(t, err)
	require.False(t, seen[r.join("first")])
}

func presentRepeats(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	near(t, row.ClaimedAt, r.present().Now)
	r.present()
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.NoError(t, r.Leave(r.ctx, 999_999), "of a session that never was")
	require.Len(t, r.present().Held, 1, "it is back before a sweep")
	o := r.other("second")
	require.Empty(t, o.sweep(10))
}

func policies(t testing.TB, h Harness) {
	r := newRig(t, h)
	full := task.Policy{
		Timeout: time.Minute, Heartbeat: 10 * time.Second, Stop: 7 * time.Second, Check: time.Second, Deadline: time.Hour,
		Retry: task.Retry{
			Limit: 3, Backoff: task.Exponential, Min: time.Second, Max: time.Minute, On: task.DefaultOn(), MaxDeferrals: 100,
		},
		Rollback: &task.RollbackPolicy{
			Timeout: time.Minute, Stop: time.Second, Retry: task.Retry{Backoff: task.Constant, Min: 1, Max: 2},
		},
	}
	bare := task.Policy{Timeout: 1}
	a := agent("with policies")
	a.Policies = map[task.PolicyHash]store.NamedPolicy{
		full.Hash("a"): {Type: kind, Policy: full}, bare.Hash("a"): {Type: "b", Policy: bare},
	}
	var session task.Session
	for range 2 { // another agent with the same ones changes nothing
		var err error
		session, err = r.Join(r.ctx, a)
		require.NoError(t, err)
	}
	got, err := r.Policies(r.ctx, []task.PolicyHash{bare.Hash("a"), full.Hash("a"), 12345})
	require.NoError(t, err)
	require.Equal(t, map[task.PolicyHash]task.Policy{full.Hash("a"): full, bare.Hash("a"): bare}, got)
	got, err = r.Policies(r.ctx, nil)
	require.NoError(t, err)
	require.Empty(t, got)

	later := task.Policy{Timeout: 2}
	a.Policies = map[task.PolicyHash]store.NamedPolicy{later.Hash("a"): {Type: kind, Policy: later}}
	_, err = r.Present(r.ctx, store.Heartbeat{Session: session, Agent: a})
	require.NoError(t, err)
	got, err = r.Policies(r.ctx, []task.PolicyHash{bare.Hash("a"), later.Hash("a")})
	require.NoError(t, err)
	require.Equal(t, map[task.PolicyHash]task.Policy{bare.Hash("a"): bare, later.Hash("a"): later}, got, "it declares another now")
}
