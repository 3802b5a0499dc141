package model_test

import (
	"context"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongRenew is a model that changes the arguments of a renewal.
type wrongRenew struct {
	*storetest.OnModel
	before func(m *storetest.OnModel, s *task.Session, w *store.Renewal)
}

func (b wrongRenew) Renew(ctx context.Context, s task.Session, rows []store.Renewal) ([]store.Answer, error) {
	rows = slices.Clone(rows)
	for i := range rows {
		b.before(b.OnModel, &s, &rows[i])
	}
	return b.OnModel.Renew(ctx, s, rows)
}

func renewing(f func(m *storetest.OnModel, s *task.Session, w *store.Renewal)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongRenew{m, f} }
}

// wrongPresent lengthens leases with presence.
type wrongPresent struct {
	*storetest.OnModel
	after func(m *storetest.OnModel, p store.Heartbeat, st *store.HeartbeatReply)
}

func (b wrongPresent) Present(ctx context.Context, p store.Heartbeat) (store.HeartbeatReply, error) {
	st, err := b.OnModel.Present(ctx, p)
	b.after(b.OnModel, p, &st)
	return st, err
}

func presenting(f func(*storetest.OnModel, store.Heartbeat, *store.HeartbeatReply)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongPresent{m, f} }
}

// wrongSweep is a model that changes its rows before a sweep, or what it has done after it.
type wrongSweep struct {
	*storetest.OnModel
	before func(r *model.Row)
	after  func(m *storetest.OnModel, reaped []store.Reaped)
	more   int
}

func (b wrongSweep) Sweep(
	ctx context.Context, s task.Session, limit int, reapFor time.Duration, view func() store.View,
) ([]store.Reaped, error) {
	if b.before != nil {
		b.Each(b.before)
	}
	reaped, err := b.OnModel.Sweep(ctx, s, limit+b.more, reapFor, view)
	if b.after != nil {
		b.after(b.OnModel, reaped)
	}
	return reaped, err
}

// never leaves.
type lingers struct{ *storetest.OnModel }

func (lingers) Leave(context.Context, task.Session) error { return nil }

// rejoins gives out the session that it gave out before.
type rejoins struct{ *storetest.OnModel }

func (b rejoins) Join(ctx context.Context, a store.Agent) (task.Session, error) {
	_, err := b.Present(ctx, store.Heartbeat{Session: 1, Agent: a})
	return 1, err
}

func leaseSabotages() []sabotage {
	return append(sweepSabotages(), []sabotage{
		{"renews whatever the fence", renewing(func(m *storetest.OnModel, _ *task.Session, w *store.Renewal) {
			m.Each(func(r *model.Row) {
				if r.ID == w.ID {
					w.Fence = r.Fence
				}
			})
		}), "repeat/a stale fence renews nothing"},
		{"renews for any session", renewing(func(m *storetest.OnModel, s *task.Session, w *store.Renewal) {
			m.Each(func(r *model.Row) {
				if r.ID == w.ID {
					*s = r.Session
				}
			})
		}), "repeat/a foreign session renews nothing"},
		{"shortens leases", renewing(func(_ *storetest.OnModel, _ *task.Session, w *store.Renewal) {
			w.Exact = true
		}), "lease/an earlier end is taken only where it is exact"},
		{"leaves leases as long as they are", renewing(func(_ *storetest.OnModel, _ *task.Session, w *store.Renewal) {
			w.Most = 0
		}), "lease/an earlier end is taken only where it is exact"},
		{"never shortens leases", renewing(func(_ *storetest.OnModel, _ *task.Session, w *store.Renewal) {
			w.Exact = false
		}), "lease/an earlier end is taken only where it is exact"},
		{"counts from the write", renewing(func(_ *storetest.OnModel, _ *task.Session, w *store.Renewal) {
			w.Age = 0
		}), "lease/a renewal counts from the progress"},
		{"lengthens leases with presence", presenting(func(m *storetest.OnModel, p store.Heartbeat, st *store.HeartbeatReply) {
			m.Each(func(r *model.Row) {
				if r.State.Running() && r.Session == p.Session {
					r.LeaseEnd = st.Now.Add(time.Hour)
				}
			})
		}), "lease/presence lengthens no lease"},
		{"forgets what is held", presenting(func(_ *storetest.OnModel, _ store.Heartbeat, st *store.HeartbeatReply) {
			st.Held = nil
		}), "lease/presence returns what is held"},
		{"keeps sessions that left", func(m *storetest.OnModel) storetest.Harness {
			return lingers{m}
		}, "sweep/dead by its session's leaving"},
		{"uses a session again", func(m *storetest.OnModel) storetest.Harness {
			return rejoins{m}
		}, "lease/sessions are never used again"},
		{"knows no policies", func(m *storetest.OnModel) storetest.Harness {
			return ignorant{m}
		}, "lease/policies are kept"},
	}...)
}

type ignorant struct{ *storetest.OnModel }

func (ignorant) Policies(context.Context, []task.PolicyHash) (map[task.PolicyHash]task.Policy, error) {
	return map[task.PolicyHash]task.Policy{}, nil
}

func sweepSabotages() []sabotage {
	sweeping := func(before func(*model.Row), after func(*storetest.OnModel, []store.Reaped), more int,
	) wrong {
		return func(m *storetest.OnModel) storetest.Harness { return wrongSweep{m, before, after, more} }
	}
	each := func(f func(*model.Row, *store.Reaped)) func(*storetest.OnModel, []store.Reaped) {
		return func(m *storetest.OnModel, reaped []store.Reaped) {
			m.Each(func(r *model.Row) {
				for i := range reaped {
					if reaped[i].ID == r.ID {
						f(r, &reaped[i])
					}
				}
			})
		}
	}
	return []sabotage{
		{"sweeps the living", sweeping(func(r *model.Row) { r.LeaseEnd = time.Time{} }, nil, 0),
			"sweep/nothing of the living"},
		{"sweeps a reaped row", sweeping(func(r *model.Row) {
			if r.Claim == 0 {
				r.LeaseEnd = time.Time{}
			}
		}, nil, 0), "sweep/a reaped row is left to its reaper"},
		{"never sweeps a reaped row", sweeping(func(r *model.Row) {
			if r.State.Running() && r.Claim == 0 {
				r.State = "reaped"
			}
		}, nil, 0), "sweep/a reaped row whose reaper has died"},
		{"sweeps over the limit", sweeping(nil, nil, 1), "sweep/no more than the limit"},
		{"sweeps and leaves the row to others", sweeping(nil, each(func(r *model.Row, _ *store.Reaped) {
			r.LeaseEnd = time.Time{}
		}), 0), "concurrent/a sweep is won by one"},
		{"keeps the fence", sweeping(nil, each(func(r *model.Row, s *store.Reaped) {
			r.Fence, s.Fence = s.RanFence, s.RanFence
		}), 0), "sweep/what a sweep returns and writes"},
		{"takes the attempt back", sweeping(nil, each(func(r *model.Row, _ *store.Reaped) { r.Attempt-- }), 0),
			"sweep/what a sweep returns and writes"},
		{"takes the reaper for the agent that lost the row", sweeping(nil, each(func(r *model.Row, _ *store.Reaped) { r.Ran = r.Session }), 0),
			"history/the agent that lost it"},
		{"takes a dead reaper for it", sweeping(func(r *model.Row) {
			if r.State.Running() && r.Claim == 0 {
				r.Ran = r.Session
			}
		}, nil, 0), "history/the agent that lost it, whose reaper died"},
		{"takes the session to be present", sweeping(nil, each(func(_ *model.Row, s *store.Reaped) { s.Present = true }), 0),
			"sweep/dead by its session's silence"},
		{"takes the session to be gone", sweeping(nil, each(func(_ *model.Row, s *store.Reaped) { s.Present = false }), 0),
			"sweep/dead by its lease"},
		{"reaps in its absence", func(m *storetest.OnModel) storetest.Harness { return tireless{m} },
			"sweep/a reaper that is absent"},
		{"reaps too soon after a jump", func(m *storetest.OnModel) storetest.Harness { return restless{m} },
			"sweep/rows of one whose presence is longer than the calm"},
		{"reaps by a clock that has moved", func(m *storetest.OnModel) storetest.Harness { return credulous{m} },
			"sweep/a clock that has moved unseen"},
		{"reaps what has expired by the store's clock alone", func(m *storetest.OnModel) storetest.Harness { return trusting{m} },
			"sweep/rows of one that was not seen silent"},
		{"does not list an expired session", func(m *storetest.OnModel) storetest.Harness { return oblivious{m} },
			"sweep/sessions that are listed"},
		{"never finds that something has expired", func(m *storetest.OnModel) storetest.Harness { return content{m} },
			"sweep/dead by its lease"},
	}
}

// tireless sweeps, present or not.
type tireless struct{ *storetest.OnModel }

func (b tireless) Sweep(
	ctx context.Context, s task.Session, limit int, reapFor time.Duration, view func() store.View,
) ([]store.Reaped, error) {
	if _, err := b.Present(ctx, store.Heartbeat{Session: s, Agent: store.Agent{Presence: time.Hour}}); err != nil {
		return nil, err
	}
	return b.OnModel.Sweep(ctx, s, limit, reapFor, view)
}

// restless takes every calm for a long one.
type restless struct{ *storetest.OnModel }

func (b restless) Sweep(
	ctx context.Context, s task.Session, limit int, reapFor time.Duration, view func() store.View,
) ([]store.Reaped, error) {
	return b.OnModel.Sweep(ctx, s, limit, reapFor, func() store.View { return store.View{Now: view().Now, Calm: 24 * time.Hour, Silent: view().Silent} })
}

// trusting takes the store's clock for right when it says that a session has expired.
type trusting struct{ *storetest.OnModel }

func (b trusting) Sweep(
	ctx context.Context, s task.Session, limit int, reapFor time.Duration, view func() store.View,
) ([]store.Reaped, error) {
	all, err := b.Holders(ctx, s)
	if err != nil {
		return nil, err
	}
	return b.OnModel.Sweep(ctx, s, limit, reapFor, func() store.View {
		v := view()
		v.Silent = all.Others
		return v
	})
}

// oblivious forgets sessions as soon as they have expired.
type oblivious struct{ *storetest.OnModel }

func (b oblivious) Holders(ctx context.Context, s task.Session) (store.Holders, error) {
	holders, err := b.OnModel.Holders(ctx, s)
	holders.Others = slices.DeleteFunc(holders.Others, func(o store.Sighting) bool {
		return b.Now().After(o.SeenAt.Add(o.Presence))
	})
	return holders, err
}

// content finds that nothing has expired.
type content struct{ *storetest.OnModel }

func (b content) Holders(ctx context.Context, s task.Session) (store.Holders, error) {
	holders, err := b.OnModel.Holders(ctx, s)
	holders.Expired = false
	return holders, err
}

// credulous sweeps whatever time it is believed to be.
type credulous struct{ *storetest.OnModel }

func (b credulous) Sweep(
	ctx context.Context, s task.Session, limit int, reapFor time.Duration, view func() store.View,
) ([]store.Reaped, error) {
	return b.OnModel.Sweep(ctx, s, limit, reapFor, func() store.View {
		return store.View{Now: b.Now(), Calm: 24 * time.Hour, Silent: view().Silent}
	})
}
