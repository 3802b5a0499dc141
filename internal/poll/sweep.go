package poll

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// sweepEvery returns how often a session looks for expired rows: with jitter, at least once a second.
func sweepEvery(presence time.Duration) time.Duration {
	return min(max(presence/8, 100*time.Millisecond), 600*time.Millisecond)
}

// sweepLoop reaps expired rows until stopped ends. An observer runs no sweep, and neither does a session whose own
// settlements fail: it could not settle what it reaps.
func (e *Engine) sweepLoop(stopped, calls context.Context) {
	defer e.splits.Wait()
	for pause(stopped, nil, spread(sweepEvery(e.o.Agent.Presence))) {
		e.active.reaping.Add(1)
		e.sweepAll(stopped, calls)
		e.active.reaping.Add(-1)
	}
}

// sweepAll looks for expired rows, and reaps those that it finds.
func (e *Engine) sweepAll(stopped, calls context.Context) {
	expired := e.declarations().Workers > 0 && e.watch(calls)
	for expired && e.keeper.MaySweep() && stopped.Err() == nil {
		limit := e.settle.mayReap()
		if limit == 0 {
			return
		}
		n, err := e.sweep(stopped, calls, limit)
		if err != nil || n < limit {
			return
		}
	}
}

// watch looks at the heartbeats of the other sessions that hold rows, and reports whether something has expired. If that fails,
// it is false, and the keeper knows nothing new.
func (e *Engine) watch(calls context.Context) (expired bool) {
	_ = e.call(calls, "holders", func(ctx context.Context) error {
		holders, err := e.o.Store.Holders(ctx, e.keeper.Session())
		if err == nil {
			e.keeper.Watch(holders.Others)
			expired = holders.Expired
		}
		return err
	})
	return expired
}

// sweep claims expired rows and queues an outcome for each: the same Decide and settlement as for any other end of an attempt.
func (e *Engine) sweep(stopped, calls context.Context, limit int) (int, error) {
	var rows []store.Reaped
	err := e.call(calls, "sweep", func(ctx context.Context) (err error) {
		rows, err = e.o.Store.Sweep(ctx, e.keeper.Session(), limit, reapFor, e.keeper.View)
		return err
	})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	e.o.Metrics.Sweeps.Add(float64(len(rows)))
	e.active.taken.Add(int64(len(rows)))
	if err := e.learn(calls, rows); err != nil {
		return len(rows), err // another sweep takes them when reapFor is over
	}
	var chunks []*store.Reaped
	var outs []task.Outcome
	for i := range rows {
		r := &rows[i]
		p := e.policy(&r.Task)
		out := verdict(r, p)
		args := []any{"task", r.ID, "type", r.Type, "fence", r.RanFence, "attempt", r.Attempt,
			"agent", r.RanAgent, "session", r.RanSession, "why", out.Error}
		e.log.Warn("reaped", append(args, e.traceArgs(&r.Task, r.RanFence, r.Phase())...)...)
		if e.maySplit(&r.Task, &out) {
			chunks, outs = append(chunks, r), append(outs, out)
			continue
		}
		e.reap(r, p, out, nil) //nolint:contextcheck // it is settled by the settler
	}
	e.reapSplit(stopped, calls, chunks, outs)
	return len(rows), nil
}

// learn reads the policies of rows that were claimed under a configuration that this agent does not have.
func (e *Engine) learn(calls context.Context, rows []store.Reaped) error {
	var missing []task.PolicyHash
	for i := range rows {
		if _, ok := e.policies.get(rows[i].Policy); !ok {
			missing = append(missing, rows[i].Policy)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return e.call(calls, "policies", func(ctx context.Context) error {
		found, err := e.o.Store.Policies(ctx, missing)
		named := make(map[task.PolicyHash]store.NamedPolicy, len(found))
		for hash, p := range found {
			named[hash] = store.NamedPolicy{Policy: p}
		}
		e.policies.put(named)
		return err
	})
}

// maxPolicies is about half of how many policies an agent remembers: the store has all of them.
const maxPolicies = 1000

// policies are those that this agent knows, to decide about the rows that it reaps. What has been put stays known until maxPolicies others
// have been put.
type policies struct {
	mu           sync.Mutex
	known, older map[task.PolicyHash]*task.Policy
}

func (p *policies) get(hash task.PolicyHash) (*task.Policy, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	policy, ok := p.known[hash]
	if !ok {
		policy, ok = p.older[hash]
	}
	return policy, ok
}

// put takes in policies.
func (p *policies) put(list map[task.PolicyHash]store.NamedPolicy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= maxPolicies {
		p.known, p.older = make(map[task.PolicyHash]*task.Policy), p.known
	}
	for hash, n := range list {
		p.known[hash] = &n.Policy
	}
}

// verdict returns the outcome of the attempt of a reaped row.
func verdict(r *store.Reaped, p *task.Policy) task.Outcome {
	switch {
	case r.Detached:
		timeout, heartbeat, stop := p.Lengths(r.Phase())
		// The reaping agent's lease began when it claimed the row, which was not before the window's end.
		ran := r.LeaseEnd.Sub(r.ClaimedAt) - reapFor - stop
		if heartbeat > 0 && ran < timeout {
			return task.Outcome{Verdict: task.Stalled, Error: fmt.Sprintf("no ping for %s", heartbeat)}
		}
		return task.Outcome{Verdict: task.TimedOut, Error: fmt.Sprintf("did not complete within its timeout of %s", timeout)}
	case r.Present:
		return task.Outcome{Verdict: task.Lost, Error: "its lease ran out"}
	}
	return task.Outcome{Verdict: task.Lost, Error: "its agent is gone"}
}

// reap queues the settlement of a reaped row: how its attempt ended, as the policy p decides. done gets the store's last
// answer; nil: no caller waits for it.
func (e *Engine) reap(r *store.Reaped, p *task.Policy, out task.Outcome, done chan store.Answer) {
	if out.Verdict == task.Stalled {
		e.o.Metrics.Stalls.WithLabelValues(r.Type).Inc()
	}
	s := reapSettlement(r, p, out, false)
	e.report(&r.Task, s)
	u := &unsettled{Settlement: s, reaped: r, policy: p, done: done}
	if e.o.Tracing != nil {
		u.span = e.traceReaped(r, &out)
	}
	e.settle.add(u)
}

// reapSettlement makes the settlement of a row that has no lease here.
func reapSettlement(r *store.Reaped, p *task.Policy, out task.Outcome, silent bool) store.Settlement {
	out = clean(out)
	return store.Settlement{
		ID: r.ID, Fence: r.Fence, RanFence: r.RanFence, Phase: r.Phase(), Attempt: r.Attempt, Outcome: out, Started: -1, Silent: silent,
		Next: task.Decide(&r.Task, p, out, r.Left, jitter()), CancelKnown: r.CancelRequested,
	}
}

// policy returns the policy that a row was claimed under. If the store has lost it, the type's present policy takes its place,
// and else the defaults: no row is stuck because its policy is missing.
func (e *Engine) policy(t *task.Task) *task.Policy {
	if p, ok := e.policies.get(t.Policy); ok {
		return p
	}
	e.log.Error("the policy of a reaped row is missing from the store; another one is used", "task", t.ID, "type", t.Type)
	if d, ok := e.declarations().byName[t.Type]; ok {
		return &d.typ.Policy
	}
	return &task.Policy{Timeout: task.DefaultTimeout, Stop: task.StopLength(task.DefaultGrace), Retry: task.Retry{
		Limit: task.DefaultRetryLimit, Backoff: task.Exponential, Min: task.DefaultRetryMin, Max: task.DefaultRetryMax,
		On: task.DefaultOn(), MaxDeferrals: task.DefaultMaxDeferrals,
	}}
}

// unleased releases rows that the session holds without a lease: the claim that took them committed after the agent had stopped
// waiting for it. They are read first, because the decision needs the whole row.
func (e *Engine) unleased(ctx context.Context, held []store.Held) {
	held = slices.DeleteFunc(held, e.settle.returns)
	if len(held) == 0 {
		return
	}
	e.aside.Go(func() {
		unknown := make(map[task.ID]task.Fence, len(held))
		claims := make(map[int64]bool)
		for _, h := range held {
			unknown[h.ID] = h.Fence
			claims[h.Claim] = true
		}
		for number := range claims {
			var rows []task.Task
			err := e.call(ctx, "claimed", func(ctx context.Context) (err error) {
				rows, err = e.o.Store.Claimed(ctx, e.keeper.Session(), number)
				return err
			})
			if err != nil {
				return // the next session heartbeat tries again
			}
			for i := range rows {
				if f, ok := unknown[rows[i].ID]; ok && f == rows[i].Fence {
					e.releaseUnleased(&rows[i])
				}
			}
		}
	})
}

func (e *Engine) releaseUnleased(t *task.Task) {
	out := task.Outcome{Verdict: task.Undelivered, Error: "its claim committed late", NeverStarted: true}
	r := &store.Reaped{Task: *t, RanFence: t.Fence, Left: time.Hour}
	p := e.policy(t)
	if e.settle.addUnleased(&unsettled{unleased: true, reaped: r, policy: p, Settlement: reapSettlement(r, p, out, true)}) {
		e.log.Warn("released: its claim committed after the agent had stopped waiting for the reply", "task", t.ID, "type", t.Type, "fence", t.Fence)
	}
}
