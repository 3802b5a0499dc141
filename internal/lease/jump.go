package lease

import (
	"context"
	"fmt"
	"time"
)

// JumpTolerance is how far store time and monotonic time may move apart before it counts as a jump of the store's clock.
// It is half of KillMargin: once for what no sign of life has noticed, once for what a sweep allows.
const JumpTolerance = KillMargin / 2

// drift is how fast the two may move apart without end, a part of the time that passes: clocks are not all the same.
const drift = 100e-6

// When the store's clock jumps ahead, everybody's leases look over. So whoever notices sweeps nothing for one presence,
// and writes what is left of its own leases anew in that time. One who cannot must be gone by then: its presence lasts
// no longer than it did before the jump until all is written, and it stops its work in time, as always.

// jump is the last jump of the store's clock, and what it has left to do.
type jump struct {
	noticed time.Duration       // local time; 0: there was none
	adrift  map[*Lease]struct{} // whose ends are not written anew yet
}

// leap notes that the store's clock was seen to have jumped at the local time noticed. k.mu is held.
func (k *Keeper) leap(noticed time.Duration) {
	k.noSweep = max(k.noSweep, noticed+k.agent.Presence)
	k.jump.noticed, k.calm = noticed, noticed
	k.jump.adrift = make(map[*Lease]struct{}, len(k.open))
	for _, l := range k.open {
		k.jump.adrift[l] = struct{}{}
	}
}

// overtaken reports whether a claim that was sent at the local time sent may have been written before the store's clock
// jumped, although its rows come only now. k.mu is held.
func (k *Keeper) overtaken(sent time.Duration) bool {
	return k.jump.noticed > 0 && sent <= k.jump.noticed
}

// reanchor writes what is left of leases that are adrift, and believes in the presence that was written at the local
// time sent once that is done. Where it does not succeed, the next sign of life goes on with it.
func (k *Keeper) reanchor(ctx context.Context, sent time.Duration) error {
	for {
		leases, rows := k.adrift(maxWrite)
		if len(rows) == 0 {
			break
		}
		answers, err := k.store.Renew(ctx, k.Session(), rows)
		if err != nil {
			k.failed(ctx, "renew")
			return fmt.Errorf("write leases anew: %w", err)
		}
		if k.anchored(leases, answers) < len(leases) {
			return nil // somebody keeps rows
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.setUntil(max(k.until, sent+k.agent.Presence))
	return nil
}

// adrift gives some of the leases that are adrift, and what is left of them, and forgets those that are settled, or dead
// already.
func (k *Keeper) adrift(most int) (leases []*Lease, rows []Renewal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for l := range k.jump.adrift {
		if len(rows) == most {
			break
		}
		left := l.left()
		if k.open[l.task.ID] != l || left <= 0 {
			delete(k.jump.adrift, l)
			continue
		}
		leases = append(leases, l)
		rows = append(rows, Renewal{ID: l.task.ID, Fence: l.task.Fence, Window: left, Most: l.longest()})
	}
	return leases, rows
}

// anchored takes in what the store answered, and tells how many of the leases are adrift no more.
func (k *Keeper) anchored(leases []*Lease, answers []Answer) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, l := range leases {
		if answers[i] != Busy {
			delete(k.jump.adrift, l)
			n++
		}
	}
	return n
}

// offset is what is known of the store's clock: its distance from the local one lies between low and high, by all of
// the readings since the last jump. Where small steps have led to a contradiction low is above high; more such steps add
// up.
type offset struct {
	low, high time.Duration
	read      time.Duration // local time of the last reading
	base      time.Time     // the first reading; zero: there was none
}

// jumped takes a reading of the store's clock, made between the local times sent and received, and reports whether it
// contradicts those before by more than JumpTolerance.
func (o *offset) jumped(now time.Time, sent, received time.Duration) bool {
	if o.base.IsZero() {
		*o = offset{low: -received, high: -sent, read: received, base: now}
		return false
	}
	since := now.Sub(o.base)
	low, high := since-received, since-sent
	aside := time.Duration(float64(received-o.read) * drift)
	o.low, o.high, o.read = o.low-aside, o.high+aside, received
	if low > o.high+JumpTolerance || high < o.low-JumpTolerance {
		o.low, o.high = low, high
		return true
	}
	o.low, o.high = max(o.low, low), min(o.high, high)
	return false
}

// at is the store's time at a local one, at the earliest; zero while nothing is known of it.
func (o *offset) at(local time.Duration) time.Time {
	if o.base.IsZero() {
		return time.Time{}
	}
	return o.base.Add(o.low + local)
}
