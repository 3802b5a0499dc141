package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Period returns the interval between two heartbeats of a session with that TTL.
func Period(presence time.Duration) time.Duration { return min(presence/4, 2*time.Second) }

// askEvery is the share of a Period that must pass between two heartbeats that were asked for at once (Keeper.doubt, Keeper.Declare).
const askEvery = 4

// loseFor is how long an agent asks whether tasks that have lost their rows have completed themselves.
const loseFor = 3 * time.Second

// retryFirst is how long after a heartbeat that failed the next one follows: doubled each time, up to a Period. A store that was out of
// reach for a moment is reached before attempts have to be stopped, however long that takes.
const retryFirst = 100 * time.Millisecond

// Run writes session heartbeats and renewals until ctx ends, and stops leases when it cannot. It returns when all of its own
// work is over, but for what it has asked aside (lose): Leave waits for that. It does not close the session; Leave does.
func (k *Keeper) Run(ctx context.Context) {
	var writing sync.WaitGroup
	writing.Go(func() { k.writeLoop(ctx) })
	writing.Go(func() { k.lookLoop(ctx) })
	writing.Go(func() { k.pulse.run(ctx.Done()) })
	k.metrics.Outage.Excuse(k.pulse.excuses)
	defer writing.Wait()
	defer k.stopStopper()
	period := Period(k.agent.Presence)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	var rested, again <-chan time.Time
	asks, wait := k.asks, retryFirst
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-again:
		case <-asks:
			asks, rested = nil, time.After(period/askEvery)
		case <-rested:
			asks, rested = k.asks, nil
			continue
		}
		if k.sendHeartbeat(ctx, period) {
			again, wait = nil, retryFirst
		} else if again = nil; wait < period { // later ones are left to the ticker
			again, wait = time.After(wait), 2*wait
		}
	}
}

// doubt implements warden.
func (k *Keeper) doubt(l *Lease) {
	k.mu.Lock()
	k.doubted = append(k.doubted, l)
	k.mu.Unlock()
	k.ask()
}

// ask has a heartbeat written at once, or as soon as askEvery allows.
func (k *Keeper) ask() {
	select {
	case k.asks <- struct{}{}:
	default:
	}
}

// sendHeartbeat writes one heartbeat, in limit at most, and acts on the reply. It returns false where that failed.
func (k *Keeper) sendHeartbeat(ctx context.Context, limit time.Duration) bool {
	k.mu.Lock()
	doubted := k.doubted
	k.doubted = nil
	k.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := k.clock.Now()
	unleased, err := k.present(call, nil)
	k.took("present", began)
	if len(unleased) > 0 && k.unleased != nil {
		k.unleased(ctx, unleased)
	}
	for _, l := range doubted { // also if the store did not answer: a stall may not wait for it
		l.settleDoubt()
	}
	switch {
	case err == nil:
		k.metrics.Outage.Worked(k.log, "present")
		k.declare(call, limit)
	case ctx.Err() == nil:
		k.metrics.Outage.Failed(k.log, "present", err, "session", k.Session(),
			"presence_left", max(k.presentUntil()-k.clock.Now(), 0).Round(time.Millisecond))
	}
	return err == nil
}

// took notes how long a store call has taken that began at that local time.
func (k *Keeper) took(op string, began time.Duration) {
	k.metrics.StoreDuration.WithLabelValues(op).Observe((k.clock.Now() - began).Seconds())
}

// failed counts a store call of that ctx that failed. A call that its caller has cancelled has not failed.
func (k *Keeper) failed(ctx context.Context, op string) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		k.metrics.StoreErrors.WithLabelValues(op).Inc()
	}
}

// Leave ends the session at once. Pings that arrive later are refused.
func (k *Keeper) Leave(ctx context.Context) error {
	k.batched.close(k)
	k.mu.Lock()
	s := k.session
	k.until = k.clock.Now()
	k.mu.Unlock()
	if err := k.store.Leave(ctx, s); err != nil {
		k.failed(ctx, "leave")
		return fmt.Errorf("close session %d: %w", s, err)
	}
	return nil
}

// heartbeat returns a heartbeat of a session that holds so many rows. mu is held.
func (k *Keeper) heartbeat(open int, d *declaring) store.Heartbeat {
	p := store.Heartbeat{
		Session: k.session, Agent: k.agent, Draining: k.draining, Running: open, Done: k.done, Order: k.order,
		Minute: k.minute.of(k.clock.Now(), k.done),
	}
	if d != nil {
		p.Agent = d.agent
	}
	p.View = func() store.View {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.vouching(k.clock.Now())
	}
	return p
}

// present writes one heartbeat and compares the rows that the session holds in the store with the leases in memory. d is what
// the heartbeat declares; nil: what the store has already.
func (k *Keeper) present(ctx context.Context, d *declaring) (unleased []store.Held, err error) {
	k.mu.Lock()
	// Both are read at one moment. So each row of a claim up to through either has a lease in open, or is an unleased row.
	open, through := k.leases(), k.through
	p := k.heartbeat(len(open), d)
	k.mu.Unlock()
	if k.state != nil {
		p.Condition = k.state()
	}

	sent := k.clock.Now()
	standing, err := k.store.Present(ctx, p)
	if err != nil {
		k.failed(ctx, "present")
		return nil, fmt.Errorf("write presence: %w", err)
	}
	received := k.clock.Now()

	k.mu.Lock()
	back := sent > k.until // the session had expired
	if back {              // other sessions may have expired for the same reason: give them time to recover, too
		k.noSweep = max(k.noSweep, received+SettleIn)
	}
	jumped := k.readClock(standing.Now, sent, received)
	isNew := d != nil && k.declaring == d
	if d != nil { // name, version and presence stay: other goroutines read the presence without the lock
		k.agent.Region, k.agent.Config, k.agent.Workers = d.agent.Region, d.agent.Config, d.agent.Workers
		k.agent.Types, k.agent.Policies, k.agent.Limits = d.agent.Types, d.agent.Policies, d.agent.Limits
	}
	if isNew {
		k.declaring = nil
	}
	changed := standing.Order != k.order
	k.order = standing.Order
	unanchored := len(k.jump.unanchored) > 0
	if unanchored {
		k.stopEarlier(k.longestStop())
	} else {
		k.longest = k.longestStop()
		k.setUntil(max(k.until, sent+k.agent.Presence))
	}
	k.mu.Unlock()

	if isNew {
		d.stored()
	}
	if changed && k.ordered != nil {
		k.ordered(standing.Order, standing.OrderedBy)
	}
	if back {
		k.log.Warn("the session was absent for a while and is present again", "session", p.Session)
	}
	unleased, lost, wrong := k.compare(open, standing.Held, through, sent, !unanchored)
	k.lose(context.WithoutCancel(ctx), lost)
	if jumped {
		k.log.Warn("the store's clock has jumped; nothing is reaped for one presence", "presence", k.agent.Presence)
	}
	switch {
	case unanchored:
		err = k.reanchor(ctx, sent)
	case len(wrong) > 0:
		err = k.correct(ctx, wrong)
	}
	return unleased, err
}

// compare passes on to the leases what the store knows of their rows. It returns the leases that the session has lost, those
// whose ends are wrong in the store, and the unleased rows: rows that it holds without a lease. open and through are from before
// the store was asked, at the local time sent. sound: the store's clock has not jumped since the leases were written, so its
// times can be used.
func (k *Keeper) compare(
	open []*Lease, held []store.Held, through int64, sent time.Duration, sound bool,
) (unleased []store.Held, lost, wrong []*Lease) {
	mine := make(map[task.ID]*Lease, len(open))
	for _, l := range open {
		mine[l.task.ID] = l
	}
	kept := make(map[task.ID]task.Fence, len(held))
	steady := k.steady()
	halt := false
	for _, h := range held {
		kept[h.ID] = h.Fence
		l := mine[h.ID]
		if l == nil || l.task.Fence != h.Fence {
			if h.Claim > 0 && h.Claim <= through && !h.Detached {
				unleased = append(unleased, h)
			}
			continue
		}
		short, long := l.differs(h, sent)
		h.Pinged = h.Pinged && sound && !long
		l.applyHeld(h, sent)
		if short || long && steady {
			wrong = append(wrong, l)
		}
		halt = halt || h.CancelRequested
	}
	if halt {
		k.halt()
	}
	for _, l := range open {
		// An attempt that is over learns from the reply to its settlement. That settlement may have been applied already, so
		// the missing row would be a false report of a lost lease.
		if kept[l.task.ID] != l.task.Fence && !l.Over() && !l.settled() {
			lost = append(lost, l)
		}
	}
	return unleased, lost, wrong
}

// lose ends leases whose rows the session no longer holds, aside: neither heartbeats nor renewals wait for what the store says of them.
func (k *Keeper) lose(ctx context.Context, lost []*Lease) {
	if len(lost) > 0 {
		k.aside.Go(func() { k.endLost(ctx, lost) })
	}
}

// endLost ends leases whose rows the session no longer holds: another session holds them, or the task has completed itself.
func (k *Keeper) endLost(ctx context.Context, lost []*Lease) {
	ctx, cancel := context.WithTimeout(ctx, loseFor)
	defer cancel()
	rows := make([]store.Held, len(lost))
	for i, l := range lost {
		rows[i] = store.Held{ID: l.task.ID, Fence: l.task.Fence}
	}
	completed := make([]bool, len(lost))
	if k.remote != nil {
		replies, err := k.remote.Completed(ctx, rows)
		if errors.Is(ctx.Err(), context.Canceled) { // the agent ends
			return
		}
		if err != nil { // stopping a task that has completed itself is the lesser evil
			k.failed(ctx, "completed")
			k.metrics.Outage.Failed(k.log, "completed", err, "tasks", len(lost))
		} else {
			completed = replies
			k.metrics.Outage.Worked(k.log, "completed")
		}
	}
	for i, l := range lost {
		switch {
		case completed[i]:
			l.complete()
		case l.settled(): // meanwhile
		case !l.Detached() && k.CountLost(l):
			k.log.Warn("lease lost: another holds the row", "task", l.task.ID, "type", l.task.Type, "fence", l.task.Fence)
			l.Stop(&Cause{Verdict: task.Lost, Reason: "the row was taken away"})
		}
		if l.Detached() {
			k.Release(l)
		}
	}
}

// CountLost counts a lease that was found to be lost, and reports whether this is new.
func (k *Keeper) CountLost(l *Lease) (isNew bool) {
	if isNew = l.noteLost(); isNew {
		k.metrics.LeasesLost.Inc()
	}
	return isNew
}

// setUntil sets the local time at which the session expires. k.mu is held.
func (k *Keeper) setUntil(until time.Duration) {
	k.until = until
	if k.lives != nil {
		k.lives(until)
	}
	if k.stopper == nil {
		k.stopper = time.AfterFunc(k.stopIn(), k.stopUnreachable)
	} else {
		k.stopper.Reset(k.stopIn())
	}
}

// stopIn returns how long from now the agent begins to stop its attempts, unless a heartbeat extends the session. k.mu is held.
func (k *Keeper) stopIn() time.Duration { return k.until - k.clock.Now() - k.stopAhead() }

// stopEarlier makes that moment as early as attempts that take so long to stop need it. k.mu is held.
func (k *Keeper) stopEarlier(longest time.Duration) {
	if longest <= k.longest {
		return
	}
	k.longest = longest
	if k.stopper != nil {
		k.stopper.Reset(k.stopIn())
	}
}

// stopAhead returns how long before the session expires the agent begins to stop its attempts: the longest stop of a declared
// policy or an open lease, but never so long that an agent that reaches its store would begin to stop. Where that cuts a stop short, KillIn
// gives the executor the time that is left. k.mu is held.
func (k *Keeper) stopAhead() time.Duration {
	return min(k.longest, k.agent.Presence-2*Period(k.agent.Presence))
}

// whyUnfit returns why no heartbeat has extended the session in time: the store was out of reach, or the process stood still, without which
// there would be time left.
func (k *Keeper) whyUnfit(until, ahead time.Duration) (reason string, still time.Duration) {
	if still = k.pulse.since(until - k.agent.Presence); k.clock.Now()-still < until-ahead {
		return fmt.Sprintf("the agent stood still for %s", still.Round(100*time.Millisecond)), still
	}
	return "the store was out of reach", 0
}

// stopUnreachable stops all attempts: no heartbeat has reached the store for so long that the session expires while they stop.
func (k *Keeper) stopUnreachable() {
	if fault.Off(fault.SelfStop) {
		return
	}
	open := slices.DeleteFunc(k.snapshot(), (*Lease).Detached)
	if len(open) == 0 {
		return
	}
	k.mu.Lock()
	if in := k.stopIn(); in > 0 { // a heartbeat has extended the session meanwhile
		k.stopper.Reset(in)
		k.mu.Unlock()
		return
	}
	until, ahead := k.until, k.stopAhead()
	k.mu.Unlock()
	reason, still := k.whyUnfit(until, ahead)
	if still > 0 {
		k.log.Error("the process stood still for too long: stopping all attempts", "attempts", len(open), "for", still)
	} else {
		k.log.Error("the store has been out of reach for too long: stopping all attempts", "attempts", len(open))
	}
	for _, l := range open {
		l.Stop(&Cause{Verdict: task.Drained, Reason: reason})
	}
}

func (k *Keeper) stopStopper() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopper != nil {
		k.stopper.Stop()
	}
}
