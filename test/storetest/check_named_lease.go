package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func namedLeaseChecks() []Check {
	return []Check{
		{"one at a time", namedOne},
		{"of many at once one gets it", namedRace},
		{"a holder may ask again", namedAgain},
		{"only its holder renews, holds and releases", namedStrangers},
		{"an expired lease is taken", namedExpired},
		{"fences never fall", namedFences},
		{"a hold outlasts the expiry", namedHold},
		{"what is rolled back changes nothing", namedRolledBack},
		{"a jump of the clock costs no lease", namedJump},
		{"a clock that was set back makes no lease longer", namedBack},
		{"without agents an expiry is seen twice", namedUnwatched},
		{"what expired long ago is removed", namedRemoved},
		{"names and holders of every kind", namedHostile},
		{"bounds", namedBounds},
	}
}

func namedOne(t testing.TB, h Harness) {
	r := newNamed(t, h)
	require.Empty(t, r.NamedLeases(t))
	f := r.taken("reindex", "me")
	l := r.only()
	require.Equal(t, store.NamedLease{Name: "reindex", Holder: "me", Fence: f, AcquiredAt: l.AcquiredAt, ExpiresAt: l.ExpiresAt}, l)
	near(t, r.Now(), l.AcquiredAt)
	require.WithinDuration(t, l.AcquiredAt.Add(leaseTTL), l.ExpiresAt, time.Second)
	require.Zero(t, r.ask("reindex", "you"))
	require.Zero(t, r.ask("reindex", "ME"))
	require.Equal(t, l, r.only(), "who asks in vain changes nothing")
	require.Greater(t, r.taken("Reindex", "you"), f, "another name is another lease")
	require.Greater(t, r.taken("report", "me"), f)
	require.NoError(t, r.release("reindex", f))
	require.Positive(t, r.taken("reindex", "you"), "at once")
}

func namedRace(t testing.TB, h Harness) {
	agents := crew(t, h)
	r := &named{&liveRig{agents[0]}}
	last := task.Fence(0)
	for round := range 5 {
		var mu sync.Mutex
		got := map[string]task.Fence{}
		together(agents, func(ctx context.Context, one *rig) error {
			a := one.Begin(one.t)
			f, err := a.Acquire(ctx, "leader", one.name, leaseTTL)
			if err != nil {
				return fmt.Errorf("%w; %w", err, a.Rollback(ctx))
			}
			mu.Lock()
			defer mu.Unlock()
			if f > 0 {
				got[one.name] = f
			}
			return a.Commit(ctx)
		})
		require.Len(t, got, 1, "round %d", round)
		for name, f := range got {
			require.Greater(t, f, last)
			require.Equal(t, name, r.only().Holder)
			require.Equal(t, f, r.only().Fence)
			last = f
		}
		if round%2 == 0 {
			require.NoError(t, r.release("leader", last))
		} else {
			r.expire()
		}
	}
}

func namedAgain(t testing.TB, h Harness) {
	r := newNamed(t, h)
	f := r.taken("reindex", "me")
	r.Advance(t, leaseTTL/2)
	require.Equal(t, f, r.taken("reindex", "me"), "its first request may have been lost")
	l := r.only()
	require.Equal(t, f, l.Fence)
	near(t, r.Now().Add(leaseTTL), l.ExpiresAt)
	near(t, r.Now().Add(-leaseTTL/2), l.AcquiredAt)
	require.Equal(t, f, r.askFor("reindex", "me", longTTL))
	near(t, r.Now().Add(longTTL), r.only().ExpiresAt)
	r.Advance(t, longTTL/2)
	require.NoError(t, r.renew("reindex", f))
	near(t, r.Now().Add(longTTL), r.only().ExpiresAt)
	require.Equal(t, f, r.askFor("reindex", "me", leaseTTL), "a shorter one, too")
	near(t, r.Now().Add(leaseTTL), r.only().ExpiresAt)
	require.NoError(t, r.release("reindex", f))
	require.Greater(t, r.taken("reindex", "me"), f)
}

func namedStrangers(t testing.TB, h Harness) {
	r := newNamed(t, h)
	f := r.taken("reindex", "me")
	other := r.taken("report", "me")
	r.lost("reindex", 0, -1, f-1, f+1, other)
	r.lost("report", f)
	r.lost("nothing", f)
	require.NoError(t, r.holdOnce("reindex", f))
	require.NoError(t, r.renew("reindex", f))
	require.NoError(t, r.bySQL(func(ctx context.Context, a Application) error {
		if err := a.HoldLease(ctx, "reindex", f); err != nil {
			return err
		}
		if err := a.RenewLease(ctx, "reindex", f); err != nil {
			return err
		}
		return a.ReleaseLease(ctx, "reindex", f)
	}), "all of it in one transaction")
	r.lost("reindex", f)
	require.NoError(t, r.renew("report", other))
}

func namedExpired(t testing.TB, h Harness) {
	r := newNamed(t, h)
	f := r.taken("reindex", "me")
	r.Advance(t, leaseTTL-time.Minute)
	r.vouch(0, later)
	require.Zero(t, r.ask("reindex", "you"), "not before it expires")
	require.NoError(t, r.renew("reindex", f))
	r.Advance(t, 2*time.Minute)
	r.vouch(0, later)
	require.Zero(t, r.ask("reindex", "you"), "renewed")
	r.expire()
	r.lost("reindex", f)
	next := r.taken("reindex", "you")
	require.Greater(t, next, f)
	require.Equal(t, "you", r.only().Holder)
	near(t, r.Now(), r.only().AcquiredAt)
	r.lost("reindex", f)
	r.expire()
	last := r.taken("reindex", "you")
	require.Greater(t, last, next, "the same holder gets another fence once its lease has expired")
	r.lost("reindex", f, next)
	require.NoError(t, r.renew("reindex", last))
}

func namedFences(t testing.TB, h Harness) {
	r := newNamed(t, h)
	last := task.Fence(0)
	rises := func(f task.Fence) {
		t.Helper()
		require.Greater(t, f, last)
		last = f
	}
	for i := range 4 {
		rises(r.taken("reindex", "me"))
		require.NoError(t, r.release("reindex", last))
		rises(r.taken("other", fmt.Sprint("holder ", i)))
		require.NoError(t, r.release("other", last))
		require.Empty(t, r.NamedLeases(t))
		rises(r.taken("reindex", "me"))
		r.expire()
		rises(r.taken("reindex", "you"))
		r.Advance(t, 8*day)
		r.vouch(0, later)
		r.maintain(7 * day)
		require.Empty(t, r.NamedLeases(t))
	}
}

func namedHold(t testing.TB, h Harness) {
	r := newNamed(t, h)
	if !r.keepsRows() {
		return // while the transaction is open, no other can write at all
	}
	f := r.taken("reindex", "me")
	a := r.Begin(t)
	require.NoError(t, a.HoldLease(r.ctx, "reindex", f))
	began := time.Now()
	require.NoError(t, r.renew("reindex", f), "a renewal does not wait for it")
	require.Equal(t, f, r.taken("reindex", "me"))
	r.expire()
	for range 3 {
		require.Zero(t, r.ask("reindex", "you"))
		require.Zero(t, r.ask("reindex", "me"))
	}
	require.Positive(t, r.taken("report", "you"), "another lease does not wait for it")
	r.maintain(time.Second)
	require.Less(t, time.Since(began), 10*time.Second)
	require.Equal(t, f, r.NamedLeases(t)[0].Fence, "nor is it removed")
	require.NoError(t, a.Commit(r.ctx))
	require.Greater(t, r.taken("reindex", "you"), f)

	f = r.taken("backup", "me")
	a = r.Begin(t)
	require.NoError(t, a.HoldLease(r.ctx, "backup", f))
	r.expire()
	require.Zero(t, r.ask("backup", "you"))
	require.NoError(t, a.Rollback(r.ctx))
	require.Greater(t, r.taken("backup", "you"), f)
}

func namedRolledBack(t testing.TB, h Harness) {
	r := newNamed(t, h)
	back := func(f func(a Application) error) {
		t.Helper()
		before := r.NamedLeases(t)
		a := r.Begin(t)
		require.NoError(t, f(a))
		require.NoError(t, a.Rollback(r.ctx))
		require.Equal(t, before, r.NamedLeases(t))
	}
	asks := func(holder string) func(a Application) error {
		return func(a Application) error {
			_, err := a.Acquire(r.ctx, "reindex", holder, longTTL)
			return err
		}
	}
	back(asks("you"))
	f := r.taken("reindex", "me")
	back(asks("me"))
	back(func(a Application) error { return a.RenewLease(r.ctx, "reindex", f) })
	back(func(a Application) error { return a.ReleaseLease(r.ctx, "reindex", f) })
	require.NoError(t, r.renew("reindex", f))
	r.expire()
	back(asks("you"))
	require.Greater(t, r.taken("reindex", "they"), f)
}

func namedJump(t testing.TB, h Harness) {
	r := newNamed(t, h)
	r.vouch(0, later)
	f := r.taken("reindex", "me")
	r.Advance(t, longTTL) // the store's clock jumps ahead
	require.Zero(t, r.ask("reindex", "you"), "no agent has seen the new time")
	require.NoError(t, r.holdOnce("reindex", f))
	r.vouch(-longTTL, later)
	require.Zero(t, r.ask("reindex", "you"), "an agent that has can tell that it has jumped")
	r.vouch(0, presence-time.Second)
	require.Zero(t, r.ask("reindex", "you"), "less than a session TTL ago")
	require.NoError(t, r.renew("reindex", f))
	near(t, r.Now().Add(leaseTTL), r.only().ExpiresAt)
	r.vouch(0, later)
	require.Zero(t, r.ask("reindex", "you"), "it was renewed in that time")

	r.Advance(t, longTTL)
	r.vouch(-longTTL, later)
	require.Zero(t, r.ask("reindex", "you"))
	require.Equal(t, f, r.taken("reindex", "me"), "its holder may ask again")
	r.Advance(t, longTTL)
	r.vouch(0, presence-time.Second)
	require.Zero(t, r.ask("reindex", "you"))
	r.vouch(0, presence)
	r.lost("reindex", f)
	require.Greater(t, r.taken("reindex", "you"), f, "it was not renewed")
}

func namedBack(t testing.TB, h Harness) {
	r := newNamed(t, h)
	f := r.taken("reindex", "me")
	r.Advance(t, -24*time.Hour)
	require.Zero(t, r.ask("reindex", "you"))
	near(t, r.Now().Add(leaseTTL), r.only().ExpiresAt)
	r.expire()
	require.Greater(t, r.taken("reindex", "you"), f)
}

func namedUnwatched(t testing.TB, h Harness) {
	r := newNamed(t, h)
	require.NoError(t, r.Leave(r.ctx, r.session))
	f := r.taken("reindex", "me")
	r.Advance(t, leaseTTL+time.Minute)
	require.Zero(t, r.ask("reindex", "you"), "seen expired for the first time")
	require.NoError(t, r.renew("reindex", f), "that is not too late")
	r.Advance(t, leaseTTL+time.Minute)
	require.Zero(t, r.ask("reindex", "you"), "the first time after a renewal")
	require.Equal(t, f, r.taken("reindex", "me"))
	r.Advance(t, leaseTTL+time.Minute)
	require.Zero(t, r.ask("reindex", "you"))
	require.NoError(t, r.holdOnce("reindex", f))
	// The sessions that there are decide how long: those of the suite have long ones.
	r.present()
	r.Advance(t, presence-time.Minute)
	require.Zero(t, r.ask("reindex", "you"))
	require.Zero(t, r.ask("reindex", "they"))
	r.Advance(t, 2*time.Minute)
	r.lost("reindex", f)
	require.Greater(t, r.taken("reindex", "you"), f, "the second time, a session TTL later")
}

func namedRemoved(t testing.TB, h Harness) {
	r := newNamed(t, h)
	r.vouch(0, later)
	r.taken("old", "me")
	kept := r.taken("kept", "me")
	r.Advance(t, 8*day)
	r.maintain(7 * day)
	require.Len(t, r.NamedLeases(t), 2, "the clock may have jumped")
	require.NoError(t, r.renew("kept", kept))
	r.vouch(0, later)
	r.maintain(9 * day)
	require.Len(t, r.NamedLeases(t), 2, "it did not expire that long ago")
	r.maintain(7 * day)
	require.Equal(t, kept, r.only().Fence)
	for range 3 { // however long ago it was acquired
		r.Advance(t, leaseTTL/2)
		require.NoError(t, r.renew("kept", kept))
		r.vouch(0, later)
		r.maintain(time.Second)
	}
	require.Equal(t, kept, r.only().Fence)
	require.Greater(t, r.taken("old", "you"), kept)
	r.Advance(t, 8*day)
	r.vouch(0, later)
	r.maintain(7 * day)
	require.Empty(t, r.NamedLeases(t))
}

func namedHostile(t testing.TB, h Harness) {
	r := newNamed(t, h)
	var fences []task.Fence
	names := []string{
		"'; DROP TABLE lease; --", `"quoted" \\ name`, "%s %d %", "{schema}", " ", "\n", "ü", "\U0001f512", "NULL", "0", "é", "e\u0301",
		strings.Repeat("x", store.MaxLeaseName), strings.Repeat("ü", 127),
	}
	for _, name := range names {
		f := r.taken(name, name)
		require.Equal(t, f, r.taken(name, name), "%q", name)
		require.Zero(t, r.ask(name, "you"), "%q", name)
		require.NoError(t, r.renew(name, f), "%q", name)
		require.NoError(t, r.holdOnce(name, f), "%q", name)
		r.lost(name, f+1)
		fences = append(fences, f)
	}
	require.Len(t, r.NamedLeases(t), len(names))
	for i, name := range names {
		require.NoError(t, r.release(name, fences[i]), "%q", name)
	}
	require.Empty(t, r.NamedLeases(t))
	for _, bad := range []string{
		"", "a\x00b", "\x00", strings.Repeat("x", store.MaxLeaseName+1), strings.Repeat("ü", 128), strings.Repeat("x", 10<<10),
	} {
		for _, a := range [][2]string{{bad, "me"}, {"reindex", bad}} {
			require.Error(t, r.bySQL(func(ctx context.Context, tx Application) error {
				_, err := tx.Acquire(ctx, a[0], a[1], leaseTTL)
				return err
			}), "%.20q", a)
		}
		require.Error(t, r.renew(bad, 1))
		require.Error(t, r.release(bad, 1))
		require.Error(t, r.holdOnce(bad, 1))
	}
	require.Empty(t, r.NamedLeases(t))
}

func namedBounds(t testing.TB, h Harness) {
	r := newNamed(t, h)
	for _, ttl := range []time.Duration{
		0, time.Nanosecond, time.Second - time.Millisecond, -time.Second, -longTTL, store.MaxLeaseTTL + time.Millisecond, 365 * day,
		1<<63 - 1, -1 << 63,
	} {
		require.ErrorContains(t, r.bySQL(func(ctx context.Context, a Application) error {
			_, err := a.Acquire(ctx, "reindex", "me", ttl)
			return err
		}), "ttl", "%s", ttl)
	}
	require.Empty(t, r.NamedLeases(t))
	for _, ttl := range []time.Duration{store.MinLeaseTTL, 1500 * time.Millisecond, store.MaxLeaseTTL} {
		f := r.askFor("reindex", "me", ttl)
		require.Positive(t, f)
		l := r.only()
		require.WithinDuration(t, l.AcquiredAt.Add(ttl), l.ExpiresAt, 10*time.Millisecond)
		require.NoError(t, r.release("reindex", f))
	}
}
