package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/task"
)

// Period is how often a session of that presence says that it is there.
func Period(presence time.Duration) time.Duration { return min(presence/4, 2*time.Second) }

// askEvery is how soon after one question how the session stands the next may follow, in a Period.
const askEvery = 4

// Run says that the session is there until ctx ends, stops leases when it cannot, and writes what tasks say. It returns
// when all of its own work is over; it does not leave (Leave does).
func (k *Keeper) Run(ctx context.Context) {
	var writing sync.WaitGroup
	writing.Go(func() { k.writeLoop(ctx) })
	writing.Go(func() { k.lookLoop(ctx) })
	defer writing.Wait()
	defer k.stopStopper()
	period := Period(k.agent.Presence)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	var rested <-chan time.Time
	asks := k.asks
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-asks:
			asks, rested = nil, time.After(period/askEvery)
		case <-rested:
			asks, rested = k.asks, nil
			continue
		}
		k.showUp(ctx, period)
	}
}

// doubt is the warden's.
func (k *Keeper) doubt(l *Lease) {
	k.mu.Lock()
	k.doubted = append(k.doubted, l)
	k.mu.Unlock()
	select {
	case k.asks <- struct{}{}:
	default:
	}
}

// showUp is one sign of life, with all that follows from the store's answer. limit bounds it.
func (k *Keeper) showUp(ctx context.Context, limit time.Duration) {
	k.mu.Lock()
	doubted := k.doubted
	k.doubted = nil
	k.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, limit)
	strays, err := k.present(call)
	cancel()
	if len(strays) > 0 && k.strays != nil {
		k.strays(ctx, strays)
	}
	for _, l := range doubted { // where the store did not answer, too
		l.settleDoubt()
	}
	switch {
	case err == nil:
		k.metrics.Outage.Worked(k.log, "present")
	case ctx.Err() == nil:
		k.metrics.Outage.Failed(k.log, "present", err, "session", k.Session(),
			"presence_left", max(k.presentUntil()-k.clock.Now(), 0).Round(time.Millisecond))
	}
}

// failed counts a store call of that ctx which failed. One that was cut because its caller needs it no more has not.
func (k *Keeper) failed(ctx context.Context, op string) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		k.metrics.StoreErrors.WithLabelValues(op).Inc()
	}
}

// Leave ends the session's presence at once. Pings that come later are refused.
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

// present writes one sign of life and compares what the store says with what the agent believes.
func (k *Keeper) present(ctx context.Context) (strays []Held, err error) {
	k.mu.Lock()
	// At one moment: a row of a claim that is resolved by then is open, or strays.
	open, through := k.leases(), k.through
	p := Presence{Session: k.session, Agent: k.agent, Draining: k.draining, Running: len(open), Done: k.done}
	declared := k.declaring
	k.mu.Unlock()

	sent := k.clock.Now()
	standing, err := k.store.Present(ctx, p)
	if err != nil {
		k.failed(ctx, "present")
		return nil, fmt.Errorf("write presence: %w", err)
	}
	received := k.clock.Now()

	k.mu.Lock()
	back := sent > k.until // it was out of reach for longer than its presence
	if back {              // others may have been absent for the same reason: give them the time to be back, too
		k.noSweep = max(k.noSweep, received+SettleIn)
	}
	jumped := k.offset.jumped(standing.Now, sent, received)
	if jumped {
		k.leap(received)
	}
	adrift := len(k.jump.adrift) > 0
	if !adrift {
		k.setUntil(max(k.until, sent+k.agent.Presence))
	}
	isNew := declared != nil && k.declaring == declared
	if isNew {
		k.declaring = nil
	}
	k.mu.Unlock()

	if isNew {
		declared.stored()
	}
	if back {
		k.log.Warn("the session was absent for a while and is present again", "session", p.Session)
	}
	strays, gone := k.compare(open, standing.Held, through, sent, !adrift)
	k.lose(ctx, gone)
	if jumped {
		k.log.Warn("the store's clock has jumped; nothing is swept for one presence", "presence", k.agent.Presence)
	}
	if adrift {
		err = k.reanchor(ctx, sent)
	}
	return strays, err
}

// compare tells leases what the store knows of them, and gives those whose rows are the session's no longer, and the
// rows that it holds unknowingly. open and through are from before the store was asked, at the local time sent; sound:
// its clock has not moved lately.
func (k *Keeper) compare(open []*Lease, held []Held, through int64, sent time.Duration, sound bool) (strays []Held, gone []*Lease) {
	mine := make(map[task.ID]*Lease, len(open))
	for _, l := range open {
		mine[l.task.ID] = l
	}
	kept := make(map[task.ID]task.Fence, len(held))
	halt := false
	for _, h := range held {
		kept[h.ID] = h.Fence
		l := mine[h.ID]
		if l == nil || l.task.Fence != h.Fence {
			if h.Claim > 0 && h.Claim <= through && !h.Detached {
				strays = append(strays, h)
			}
			continue
		}
		h.Pinged = h.Pinged && sound
		l.hear(h, sent)
		halt = halt || h.CancelAsked
	}
	if halt {
		k.halt()
	}
	for _, l := range open {
		// An attempt that is over and waits for its settlement's answer is told by that answer.
		if kept[l.task.ID] != l.task.Fence && !l.Over() && !l.Completed() {
			gone = append(gone, l)
		}
	}
	return strays, gone
}

// lose ends leases whose rows are the session's no longer: another has them, or the task has ended itself.
func (k *Keeper) lose(ctx context.Context, gone []*Lease) {
	if len(gone) == 0 {
		return
	}
	rows := make([]Held, len(gone))
	for i, l := range gone {
		rows[i] = Held{ID: l.task.ID, Fence: l.task.Fence}
	}
	completed := make([]bool, len(gone))
	if k.remote != nil {
		told, err := k.remote.Completed(ctx, rows)
		if err != nil { // to stop one that has completed itself is the lesser evil
			k.failed(ctx, "completed")
			k.metrics.Outage.Failed(k.log, "completed", err, "tasks", len(gone))
		} else {
			completed = told
			k.metrics.Outage.Worked(k.log, "completed")
		}
	}
	for i, l := range gone {
		switch {
		case completed[i]:
			l.complete()
		case !l.Detached():
			k.metrics.LeasesLost.Inc()
			k.log.Warn("lease lost: another holds the row", "task", l.task.ID, "type", l.task.Type, "fence", l.task.Fence)
			l.Stop(&Cause{Verdict: task.Lost, Reason: "the row was taken away"})
		}
		if l.Detached() {
			k.Release(l)
		}
	}
}

// setUntil notes the local time at which presence runs out. k.mu is held.
func (k *Keeper) setUntil(until time.Duration) {
	k.until = until
	if k.lives != nil {
		k.lives(until)
	}
	wait := until - k.clock.Now() - k.stopAhead()
	if k.stopper == nil {
		k.stopper = time.AfterFunc(wait, k.stopUnreachable)
	} else {
		k.stopper.Reset(wait)
	}
}

// stopAhead is how long before presence runs out stopping begins: the longest stop of a declared policy, but never so
// long that an agent which reaches its store would begin to stop. Where that cuts a stop short, KillIn tells the
// executor. k.mu is held.
func (k *Keeper) stopAhead() time.Duration {
	return min(k.longest, k.agent.Presence-2*Period(k.agent.Presence))
}

// stopUnreachable stops all work: the store has been out of reach for so long that presence runs out while it stops.
func (k *Keeper) stopUnreachable() {
	if fault.Off(fault.SelfStop) {
		return
	}
	open := slices.DeleteFunc(k.snapshot(), (*Lease).Detached)
	if len(open) == 0 {
		return
	}
	k.log.Error("the store has been out of reach for too long: stopping all attempts", "attempts", len(open))
	for _, l := range open {
		l.Stop(&Cause{Verdict: task.Drained, Reason: "the store was out of reach"})
	}
}

func (k *Keeper) stopStopper() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopper != nil {
		k.stopper.Stop()
	}
}
