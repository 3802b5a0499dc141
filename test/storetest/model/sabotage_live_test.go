package model_test

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// liveSabotages are those that are about liveness.
func liveSabotages() []sabotage {
	return slices.Concat(pingSabotages(), noteSabotages(), completeSabotages(), cancelSabotages(), adoptSabotages())
}

// wrongPing is a model that changes the arguments of a ping, or its rows and its reply.
type wrongPing struct {
	*storetest.OnModel
	before func(m *storetest.OnModel, p *store.RemotePing)
	after  func(r *model.Row, p store.RemotePing, reply *store.PingReply)
}

func (b wrongPing) TakePings(ctx context.Context, rows []store.RemotePing) ([]store.PingReply, error) {
	rows = slices.Clone(rows)
	for i := range rows {
		if b.before != nil {
			b.before(b.OnModel, &rows[i])
		}
	}
	replies, err := b.OnModel.TakePings(ctx, rows)
	if b.after != nil {
		b.Each(func(r *model.Row) {
			for i := range replies {
				if rows[i].ID == r.ID {
					b.after(r, rows[i], &replies[i])
				}
			}
		})
	}
	return replies, err
}

func pinging(before func(*storetest.OnModel, *store.RemotePing)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongPing{m, before, nil} }
}

func pinged(after func(*model.Row, store.RemotePing, *store.PingReply)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongPing{m, nil, after} }
}

// of does something to one row.
func of(m *storetest.OnModel, id task.ID, f func(*model.Row)) {
	m.Each(func(r *model.Row) {
		if r.ID == id {
			f(r)
		}
	})
}

func pingSabotages() []sabotage {
	return []sabotage{
		{"pings whatever the fence", pinging(func(m *storetest.OnModel, p *store.RemotePing) {
			of(m, p.ID, func(r *model.Row) { p.Fence = r.Fence })
		}), "ping/a stale fence pings nothing"},
		{"pings what is reaped", pinging(func(m *storetest.OnModel, p *store.RemotePing) {
			of(m, p.ID, func(r *model.Row) { r.Claim = max(r.Claim, 1) })
		}), "ping/a row that is reaped takes none"},
		{"pings what has ended", pinging(func(m *storetest.OnModel, p *store.RemotePing) {
			of(m, p.ID, func(r *model.Row) {
				if r.Fence == p.Fence && r.State.Running() {
					r.LeaseEnd = r.LeaseEnd.Add(24 * time.Hour)
				}
			})
		}), "ping/a lease that has ended takes none"},
		{"grants whatever is asked for", pinged(func(r *model.Row, p store.RemotePing, reply *store.PingReply) {
			if reply.Counted && p.NextWithin > 0 && !r.PingDue.IsZero() {
				r.LeaseEnd = r.LeaseEnd.Add(p.NextWithin)
			}
		}), "ping/a ping asks for longer"},
		{"never grants what is asked for", pinging(func(_ *storetest.OnModel, p *store.RemotePing) {
			p.NextWithin = 0
		}), "ping/a ping asks for longer"},
		{"renews past the attempt's end", pinged(func(r *model.Row, _ store.RemotePing, reply *store.PingReply) {
			if reply.Counted && reply.Remaining < 20*time.Minute {
				r.LeaseEnd = r.LeaseEnd.Add(time.Hour)
			}
		}), "ping/never past the attempt's end"},
		{"ignores the task's deadline", pinging(func(m *storetest.OnModel, p *store.RemotePing) {
			of(m, p.ID, func(r *model.Row) { r.Deadline = time.Time{} })
		}), "ping/never past the task's deadline"},
		{"renews the quiet", pinged(func(r *model.Row, _ store.RemotePing, reply *store.PingReply) {
			if reply.Counted && r.PingDue.IsZero() {
				r.LeaseEnd = r.LeaseEnd.Add(time.Hour)
			}
		}), "ping/no heartbeat, no renewal"},
		{"counts every ping", pinging(func(m *storetest.OnModel, p *store.RemotePing) {
			of(m, p.ID, func(r *model.Row) { r.Progress = json.RawMessage(`"before"`) })
			if p.Progress == nil {
				p.Progress = json.RawMessage(`"anything"`)
			}
		}), "ping/only progress counts"},
		{"renews what does not count", pinged(func(r *model.Row, _ store.RemotePing, reply *store.PingReply) {
			if reply.Answer == store.Applied && !reply.Counted {
				r.LeaseEnd = r.LeaseEnd.Add(time.Hour)
			}
		}), "ping/only progress counts"},
		{"shortens leases by pings", pinged(func(r *model.Row, _ store.RemotePing, reply *store.PingReply) {
			if reply.Counted && !r.PingDue.IsZero() {
				r.LeaseEnd = r.PingDue.Add(time.Minute)
			}
		}), "ping/a ping never shortens"},
		{"keeps pings from its session", pinged(func(r *model.Row, _ store.RemotePing, _ *store.PingReply) {
			r.PingDue = time.Time{}
		}), "ping/the heartbeat reports it"},
		{"does not ask the task to stop", pinged(func(_ *model.Row, _ store.RemotePing, reply *store.PingReply) {
			reply.Cancel, reply.Reason = false, ""
		}), "ping/it is notified of a cancellation"},
		{"drops messages", pinging(func(_ *storetest.OnModel, p *store.RemotePing) { p.Message = "" }),
			"ping/only progress counts"},
		{"says lost for a row that is kept", func(m *storetest.OnModel) storetest.Harness { return shy{m} },
			"ping/a row that is kept takes them"},
	}
}

// shy takes no pings for rows that are kept.
type shy struct{ *storetest.OnModel }

func (b shy) TakePings(ctx context.Context, rows []store.RemotePing) ([]store.PingReply, error) {
	for _, r := range rows {
		if b.Kept(r.ID) {
			return make([]store.PingReply, len(rows)), nil
		}
	}
	return b.OnModel.TakePings(ctx, rows)
}

func noteSabotages() []sabotage {
	return []sabotage{
		{"drops what renewals say", renewing(func(_ *storetest.OnModel, _ *task.Session, w *store.Renewal) {
			w.Report = store.Report{}
		}), "notes/a renewal writes them"},
		{"writes what it refuses", func(m *storetest.OnModel) storetest.Harness { return scribbler{m} },
			"notes/a renewal that is refused does not"},
		{"drops what settlements say", before(func(_ *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			e.Report = store.Report{}
		}), "notes/a settlement writes them"},
		{"forgets checkpoints between attempts", before(func(m *storetest.OnModel, _ *task.Session, e *store.Settlement) {
			of(m, e.ID, func(r *model.Row) { r.Checkpoint = nil })
		}), "notes/the next attempt is handed the checkpoint"},
		{"hands no checkpoint", func(m *storetest.OnModel) storetest.Harness { return forgetful{m} },
			"notes/the next attempt is handed the checkpoint"},
		{"never detaches", renewing(func(_ *storetest.OnModel, _ *task.Session, w *store.Renewal) {
			w.Detach = false
		}), "detach/it outlives its session"},
		{"detaches for ever", after(func(m *storetest.OnModel, _ []store.Settlement, _ []store.Answer) {
			m.Each(func(r *model.Row) { r.Detached = true })
		}), "detach/the next attempt is not"},
		{"never sweeps what is detached", func(m *storetest.OnModel) storetest.Harness {
			return wrongSweep{m, func(r *model.Row) {
				if r.Detached {
					r.LeaseEnd = r.LeaseEnd.Add(1000 * time.Hour)
				}
			}, nil, 0}
		}, "detach/it is reaped when its window ends"},
		{"leaves reaped rows detached", func(m *storetest.OnModel) storetest.Harness {
			return wrongSweep{m, nil, func(m *storetest.OnModel, reaped []store.Reaped) {
				for _, s := range reaped {
					of(m, s.ID, func(r *model.Row) { r.Detached = s.Detached })
				}
			}, 0}
		}, "detach/its outcome depends on the reaper"},
	}
}

// scribbler writes the reports of every renewal, from any session.
type scribbler struct{ *storetest.OnModel }

func (b scribbler) Renew(ctx context.Context, s task.Session, rows []store.Renewal) ([]store.Answer, error) {
	for _, w := range rows {
		of(b.OnModel, w.ID, func(r *model.Row) { r.Message = w.Message })
	}
	return b.OnModel.Renew(ctx, s, rows)
}

// forgetful claims without checkpoints.
type forgetful struct{ *storetest.OnModel }

func (b forgetful) Claim(ctx context.Context, c store.Claim) ([]task.Task, error) {
	rows, err := b.OnModel.Claim(ctx, c)
	for i := range rows {
		rows[i].Checkpoint = nil
	}
	return rows, err
}
