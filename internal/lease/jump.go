package lease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// drift is the rate at which store time and monotonic time may move apart for ever without counting as a jump, because
// clocks differ.
const drift = 100e-6

// When the store's clock jumps ahead, the leases of all agents look expired. So an agent that detects a jump runs no sweep for
// one TTL, and re-anchors its own leases in that time: it writes what is left of them. An agent that cannot must have stopped
// its attempts by then. So until all leases are written it does not count its session as extended, and it stops its work in
// time, as always.

// jump is the last jump of the store's clock, and what is left to do about it.
type jump struct {
	noticed    time.Duration       // local time of its detection; 0: there was none
	unanchored map[*Lease]struct{} // leases that are not re-anchored yet
}

// readClock takes a reading of the store's clock, made between the local times sent and received, and reports whether the clock
// has jumped since the one before. k.mu is held.
func (k *Keeper) readClock(now time.Time, sent, received time.Duration) (jumped bool) {
	if k.unread(received) {
		k.watched = received
	}
	if jumped = k.offset.jumped(now, sent, received); jumped {
		k.recordJump(received)
	}
	if k.jump.noticed > 0 && received-k.jump.noticed < Period(k.agent.Presence) {
		k.ask() // it may be about to return, and until the next reading leases are too short that were written meanwhile
	}
	return jumped
}

// unread reports whether the store's clock has not been read for so long at a local time that it may have jumped and returned since:
// no reading shows that. k.mu is held.
func (k *Keeper) unread(now time.Duration) bool {
	return !k.offset.base.IsZero() && now-k.offset.read > Period(k.agent.Presence)*3/2
}

// vouching is what a session heartbeat sends along. For named leases it matters how the clock was at any time, for their holders
// have no session that re-anchors them. So it is calm for no longer than it was read without a gap. k.mu is held.
func (k *Keeper) vouching(now time.Duration) store.View {
	v := k.clockView(now)
	if v.Calm = min(v.Calm, now-k.watched); k.unread(now) {
		v.Calm = 0
	}
	return v
}

// recordJump records a jump of the store's clock that was detected at the local time noticed. k.mu is held.
func (k *Keeper) recordJump(noticed time.Duration) {
	k.noSweep = max(k.noSweep, noticed+k.agent.Presence)
	k.jump.noticed, k.calm = noticed, noticed
	k.jumped.Store(int64(noticed))
	k.jump.unanchored = make(map[*Lease]struct{}, len(k.open))
	for _, l := range k.open {
		k.jump.unanchored[l] = struct{}{}
	}
}

// JumpedAgo returns how long ago a jump of the store's clock was detected, and whether one ever was. It takes no lock.
func (k *Keeper) JumpedAgo() (ago time.Duration, ever bool) {
	noticed := time.Duration(k.jumped.Load())
	return k.clock.Now() - noticed, noticed != 0
}

// overtaken reports whether a claim that was sent at the local time sent may have been written before the store's clock
// jumped, although its rows come only now. k.mu is held.
func (k *Keeper) overtaken(sent time.Duration) bool {
	return k.jump.noticed > 0 && sent <= k.jump.noticed
}

// reanchor writes what is left of the leases that are not re-anchored yet. Once that is done it counts the session as extended
// by the heartbeat of the local time sent. If it fails, the next heartbeat continues.
func (k *Keeper) reanchor(ctx context.Context, sent time.Duration) error {
	for {
		leases, rows := k.unanchored(maxWrite)
		if len(rows) == 0 {
			break
		}
		answers, err := k.store.Renew(ctx, k.Session(), rows)
		if err != nil {
			k.failed(ctx, "renew")
			return fmt.Errorf("write leases anew: %w", err)
		}
		if k.anchored(leases, answers) < len(leases) {
			return nil // other transactions have locked rows
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.setUntil(max(k.until, sent+k.agent.Presence))
	return nil
}

// Leases can end at a wrong time in the store. Some end too early: the store's clock was behind when they were written, because
// it has jumped twice between two heartbeats. Others end too late: the clock was set back after they were written. That is
// harmless while the session is alive, and to be corrected only once the clock stays as it is. Otherwise a clock that returns at
// once would leave them too short.

// differs reports whether the lease ends too early in the store, or later than a lease can, by what the store said after the
// local time sent. If the store has confirmed an end since then, it may have meant the one before; and a renewal that is not
// confirmed may have taken effect, and have made the lease shorter. A detached lease follows what its task reports elsewhere, so
// it is never too short.
func (l *Lease) differs(h store.Held, sent time.Duration) (short, long bool) {
	l.mu.Lock()
	known := !l.over && l.endSet < sent && !l.unconfirmed()
	l.mu.Unlock()
	if !known {
		return false, false
	}
	left := l.left()
	short = left > 0 && h.Left < left-store.JumpTolerance && !h.Detached
	return short, h.Left > max(left, l.longest())+store.JumpTolerance
}

// steady reports whether the store's clock has not jumped for one Period, so that every session with the same TTL would know.
func (k *Keeper) steady() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.clock.Now()-k.calm >= Period(k.agent.Presence)
}

// correct writes what is left of leases whose ends are wrong in the store. What cannot be written now is wrong at the next
// heartbeat, too.
func (k *Keeper) correct(ctx context.Context, wrong []*Lease) error {
	if !k.writing.TryLock() { // a renewal is under way, which may be what makes the difference
		return nil
	}
	defer k.writing.Unlock()
	for leases := range slices.Chunk(wrong, maxWrite) {
		rows := make([]store.Renewal, len(leases))
		for i, l := range leases {
			rows[i] = l.rest()
			rows[i].Most = l.longest()
		}
		if _, err := k.store.Renew(ctx, k.Session(), rows); err != nil {
			k.failed(ctx, "renew")
			return fmt.Errorf("write leases anew: %w", err)
		}
	}
	return nil
}

// rest is the renewal that writes what is left of the lease, where the store has less.
func (l *Lease) rest() store.Renewal {
	return store.Renewal{ID: l.task.ID, Fence: l.task.Fence, Window: l.left()}
}

// unanchored returns leases that are not re-anchored yet, no more than most, and what is to be written of them. It forgets those
// that are settled, or have expired already.
func (k *Keeper) unanchored(most int) (leases []*Lease, rows []store.Renewal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for l := range k.jump.unanchored {
		if len(rows) == most {
			break
		}
		rest := l.rest()
		if k.open[l.task.ID] != l || rest.Window <= 0 {
			delete(k.jump.unanchored, l)
			continue
		}
		leases, rows = append(leases, l), append(rows, rest)
	}
	return leases, rows
}

// anchored takes the store's answers, and returns how many of the leases are done.
func (k *Keeper) anchored(leases []*Lease, answers []store.Answer) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, l := range leases {
		if answers[i] != store.Busy {
			delete(k.jump.unanchored, l)
			n++
		}
	}
	return n
}

// offset is what is known of the store's clock. Its distance from the local clock lies between low and high, by all readings
// since the last jump: each reply gives an interval, as wide as its round trip, and they are intersected. Small steps of the
// clock can make low larger than high. That is no jump yet, but further such steps add up to one.
type offset struct {
	low, high time.Duration
	read      time.Duration // local time of the last reading
	base      time.Time     // the first reading; zero: there was none
}

// jumped takes a reading of the store's clock, made between the local times sent and received, and reports whether it
// contradicts those before by more than store.JumpTolerance.
func (o *offset) jumped(now time.Time, sent, received time.Duration) bool {
	if o.base.IsZero() {
		*o = offset{low: -received, high: -sent, read: received, base: now}
		return false
	}
	since := now.Sub(o.base)
	low, high := since-received, since-sent
	aside := time.Duration(float64(received-o.read) * drift)
	o.low, o.high, o.read = o.low-aside, o.high+aside, received
	if low > o.high+store.JumpTolerance || high < o.low-store.JumpTolerance {
		o.low, o.high = low, high
		return true
	}
	o.low, o.high = max(o.low, low), min(o.high, high)
	return false
}

// at returns the earliest time that the store's clock may show at a local time; zero while nothing is known of it.
func (o *offset) at(local time.Duration) time.Time {
	if o.base.IsZero() {
		return time.Time{}
	}
	return o.base.Add(o.low + local)
}
