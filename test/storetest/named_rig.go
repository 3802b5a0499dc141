package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// leaseTTL is the length of the leases of these checks, and longTTL that of another.
const (
	leaseTTL = 10 * time.Minute
	longTTL  = time.Hour
)

// named is a rig whose session vouches for the clock with each heartbeat, unless a check has it do otherwise.
type named struct{ *liveRig }

func newNamed(t testing.TB, h Harness) *named {
	t.Helper()
	return &named{newLiveRig(t, h)}
}

// vouch writes a heartbeat of a session that knows the store's clock to differ from what it shows by skew, and has seen no
// other jump of it for calm.
func (r *named) vouch(skew, calm time.Duration) {
	r.t.Helper()
	_, err := r.Present(r.ctx, store.Heartbeat{Session: r.session, Agent: agent(r.name), View: func() store.View {
		return store.View{Now: r.Now().Add(skew), Calm: calm}
	}})
	require.NoError(r.t, err)
}

// expire lets the leases of leaseTTL expire where an agent is there that knows the time.
func (r *named) expire() {
	r.t.Helper()
	r.Advance(r.t, leaseTTL+time.Minute)
	r.vouch(0, later)
}

// ask asks for a lease, in a transaction of its own; 0: another holds it.
func (r *named) ask(name, holder string) task.Fence {
	r.t.Helper()
	return r.askFor(name, holder, leaseTTL)
}

func (r *named) askFor(name, holder string, ttl time.Duration) (f task.Fence) {
	r.t.Helper()
	require.NoError(r.t, r.bySQL(func(ctx context.Context, a Application) (err error) {
		f, err = a.Acquire(ctx, name, holder, ttl)
		return err
	}))
	return f
}

// taken is ask where it must be granted.
func (r *named) taken(name, holder string) task.Fence {
	r.t.Helper()
	f := r.ask(name, holder)
	require.Positive(r.t, f, "%s asks for %s", holder, name)
	return f
}

func (r *named) renew(name string, f task.Fence) error {
	return r.bySQL(func(ctx context.Context, a Application) error { return a.RenewLease(ctx, name, f) })
}

func (r *named) release(name string, f task.Fence) error {
	return r.bySQL(func(ctx context.Context, a Application) error { return a.ReleaseLease(ctx, name, f) })
}

func (r *named) holdOnce(name string, f task.Fence) error {
	return r.bySQL(func(ctx context.Context, a Application) error { return a.HoldLease(ctx, name, f) })
}

// lost asserts that nothing can be done with a lease and that fence, and that this changes nothing.
func (r *named) lost(name string, fences ...task.Fence) {
	r.t.Helper()
	before := r.NamedLeases(r.t)
	for _, f := range fences {
		gone(r.t, r.renew(name, f))
		gone(r.t, r.holdOnce(name, f))
		gone(r.t, r.release(name, f))
	}
	require.Equal(r.t, before, r.NamedLeases(r.t))
}

// only is the one lease that there is.
func (r *named) only() store.NamedLease {
	r.t.Helper()
	all := r.NamedLeases(r.t)
	require.Len(r.t, all, 1)
	return all[0]
}
