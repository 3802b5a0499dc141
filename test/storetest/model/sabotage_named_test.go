package model_test

import (
	"context"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongLeases is a model whose transactions do something else with named leases, and whose sessions vouch for what they do not
// know.
type wrongLeases struct {
	*storetest.OnModel
	tx       func(*storetest.OnModel, storetest.Application) storetest.Application
	vouches  bool
	maintain maintainFunc
}

func (b wrongLeases) Begin(t testing.TB) storetest.Application {
	a := b.OnModel.Begin(t)
	if b.tx != nil {
		a = b.tx(b.OnModel, a)
	}
	return a
}

func (b wrongLeases) Present(ctx context.Context, p store.Heartbeat) (store.HeartbeatReply, error) {
	if b.vouches {
		p.View = func() store.View { return store.View{Now: b.Now(), Calm: time.Hour} }
	}
	return b.OnModel.Present(ctx, p)
}

func (b wrongLeases) Maintain(ctx context.Context, retention time.Duration) (int64, error) {
	if b.maintain != nil {
		return b.maintain(ctx, b.OnModel, retention)
	}
	return b.OnModel.Maintain(ctx, retention)
}

// wrongAcquire is a transaction that asks for leases in another way.
type wrongAcquire struct {
	storetest.Application
	m       *storetest.OnModel
	acquire acquireFunc
}

type acquireFunc = func(
	ctx context.Context, a storetest.Application, m *storetest.OnModel, name, holder string, ttl time.Duration,
) (task.Fence, error)

func (w wrongAcquire) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (task.Fence, error) {
	return w.acquire(ctx, w.Application, w.m, name, holder, ttl)
}

func acquiring(f acquireFunc) wrong {
	return func(m *storetest.OnModel) storetest.Harness {
		return wrongLeases{OnModel: m, tx: func(m *storetest.OnModel, a storetest.Application) storetest.Application {
			return wrongAcquire{a, m, f}
		}}
	}
}

// lenient is a transaction that does for any fence what only the holder's may.
type lenient struct {
	storetest.Application
	m *storetest.OnModel
}

func (w lenient) RenewLease(ctx context.Context, name string, f task.Fence) error {
	for _, l := range w.m.Store.NamedLeases() {
		if l.Name == name {
			f = l.Fence
		}
	}
	return w.Application.RenewLease(ctx, name, f)
}

// unheld is a transaction that holds nothing.
type unheld struct{ storetest.Application }

func (unheld) HoldLease(context.Context, string, task.Fence) error { return nil }

// final is a transaction that cannot be rolled back.
type final struct{ storetest.Application }

func (w final) Rollback(ctx context.Context) error { return w.Commit(ctx) }

func namedSabotages() []sabotage {
	tampering := func(f func(*model.NamedLease)) acquireFunc {
		return func(
			ctx context.Context, a storetest.Application, m *storetest.OnModel, name, holder string, ttl time.Duration,
		) (task.Fence, error) {
			m.TamperLeases(func(all map[string]*model.NamedLease) {
				if l := all[name]; l != nil {
					f(l)
				}
			})
			return a.Acquire(ctx, name, holder, ttl)
		}
	}
	transaction := func(f func(*storetest.OnModel, storetest.Application) storetest.Application) wrong {
		return func(m *storetest.OnModel) storetest.Harness { return wrongLeases{OnModel: m, tx: f} }
	}
	long := tampering(func(l *model.NamedLease) { l.ExpirySeen = l.ExpiresAt.Add(-24 * time.Hour) })
	return []sabotage{
		{"takes every lease", acquiring(func(
			ctx context.Context, a storetest.Application, m *storetest.OnModel, name, holder string, ttl time.Duration,
		) (task.Fence, error) {
			m.TamperLeases(func(all map[string]*model.NamedLease) { delete(all, name) })
			return a.Acquire(ctx, name, holder, ttl)
		}), "named_lease/of many at once one gets it"},
		{"gives a new fence to who asks again", acquiring(func(
			ctx context.Context, a storetest.Application, m *storetest.OnModel, name, holder string, ttl time.Duration,
		) (task.Fence, error) {
			m.TamperLeases(func(all map[string]*model.NamedLease) {
				if l := all[name]; l != nil && l.Holder == holder {
					delete(all, name)
				}
			})
			return a.Acquire(ctx, name, holder, ttl)
		}), "named_lease/a holder may ask again"},
		{"renews for any fence", transaction(func(m *storetest.OnModel, a storetest.Application) storetest.Application {
			return lenient{a, m}
		}), "named_lease/only its holder renews, holds and releases"},
		{"holds nothing", transaction(func(_ *storetest.OnModel, a storetest.Application) storetest.Application {
			return unheld{a}
		}), "named_lease/a hold outlasts the expiry"},
		{"rolls nothing back", transaction(func(_ *storetest.OnModel, a storetest.Application) storetest.Application {
			return final{a}
		}), "named_lease/what is rolled back changes nothing"},
		{"takes what a transaction holds", acquiring(tampering(func(l *model.NamedLease) { l.Kept = 0 })),
			"named_lease/a hold outlasts the expiry"},
		{"counts fences by name", acquiring(func(
			ctx context.Context, a storetest.Application, m *storetest.OnModel, name, holder string, ttl time.Duration,
		) (task.Fence, error) {
			if len(m.Store.NamedLeases()) == 0 {
				m.ForgetFences()
			}
			return a.Acquire(ctx, name, holder, ttl)
		}), "named_lease/fences never fall"},
		{"takes what has expired at once", acquiring(long), "named_lease/a jump of the clock costs no lease"},
		{"takes what has expired at once, without agents", acquiring(long), "named_lease/without agents an expiry is seen twice"},
		{"believes in every time", func(m *storetest.OnModel) storetest.Harness {
			return wrongLeases{OnModel: m, vouches: true}
		}, "named_lease/a jump of the clock costs no lease"},
		{"never takes a lease that was kept too long", acquiring(tampering(func(l *model.NamedLease) { l.TTL = 48 * time.Hour })),
			"named_lease/a clock that was set back makes no lease longer"},
		{"never believes that a lease has expired", acquiring(tampering(func(l *model.NamedLease) {
			l.ExpiresAt = l.ExpiresAt.Add(24 * time.Hour)
		})), "named_lease/an expired lease is taken"},
		{"removes every lease that has expired", func(m *storetest.OnModel) storetest.Harness {
			return wrongLeases{OnModel: m, maintain: func(ctx context.Context, m *storetest.OnModel, retention time.Duration) (int64, error) {
				m.TamperLeases(func(all map[string]*model.NamedLease) { clear(all) })
				return m.Maintain(ctx, retention)
			}}
		}, "named_lease/what expired long ago is removed"},
		{"removes no lease", func(m *storetest.OnModel) storetest.Harness {
			return wrongLeases{OnModel: m, maintain: func(context.Context, *storetest.OnModel, time.Duration) (int64, error) {
				return 0, nil
			}}
		}, "named_lease/what expired long ago is removed"},
		{"takes any length", acquiring(func(
			ctx context.Context, a storetest.Application, _ *storetest.OnModel, name, holder string, ttl time.Duration,
		) (task.Fence, error) {
			return a.Acquire(ctx, name, holder, min(max(ttl, store.MinLeaseTTL), store.MaxLeaseTTL))
		}), "named_lease/bounds"},
		{"takes a part of a name", acquiring(func(
			ctx context.Context, a storetest.Application, _ *storetest.OnModel, name, holder string, ttl time.Duration,
		) (task.Fence, error) {
			return a.Acquire(ctx, name[:min(len(name), store.MaxLeaseName)], holder, ttl)
		}), "named_lease/names and holders of every kind"},
	}
}
