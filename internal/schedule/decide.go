package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// State is what the store keeps of a schedule, and what it knows of its last task. All times are by the store's clock; zero:
// none. See store.Schedule for each field.
type State struct {
	Created, Cursor, Queued time.Time

	LastTask task.ID
	LastLive bool
	LastSlot time.Time
	LastAt   time.Time
	LastEnd  time.Time
}

// Slot is a slot that fires: its time, by which it is known, and when its task is due.
type Slot struct{ At, RunAt time.Time }

// Decision is what is to happen to a schedule.
type Decision struct {
	Fire   []Slot    // one at most: what becomes of the next slot depends on this one's task
	Cursor time.Time // all slots through it are decided
	Queued time.Time // fires once the last task has ended; zero: none
	Missed int       // slots that do not fire, as count counts them
	NextAt time.Time // when to decide again, after now; zero: never
	Waits  bool      // a slot has come and waits for the last task's end
}

const (
	onTime = 30 * time.Second // a slot that is later than this was missed

	// While a slot waits for the last task's end, it is looked at again after an eighth of the time since that was inserted.
	shortestWait = 250 * time.Millisecond
	longestWait  = 30 * time.Second
)

// Decide returns what is to happen at now, by the store's clock, with the slots after the cursor that have come. It is pure, and
// takes a bounded number of steps however long nobody decided.
//
// Slots that are late by more than onTime were missed. Of these, catch_up drops what is older than it says (but never what is on
// time), and missed drops all others ("none"), or all but the newest ("one"). What is left is decided in order. A slot fires where
// the last task is not live. Where it is, skip drops the slot, and queue keeps the first one and drops those that follow; only
// missed slots with missed = "all" wait, each for the end of the one before, and so do slots behind them.
//
// At most one slot fires in a decision: the next one's fate depends on what becomes of its task.
func (p *Plan) Decide(s State, now time.Time) Decision {
	if p.after != 0 {
		return p.decideAfter(s, now)
	}
	d := Decision{Cursor: p.cursor(s, now), Queued: s.Queued}
	if s.Queued.After(s.Cursor) {
		d.Queued = time.Time{} // the declaration had after before, and this was its next task
	}
	p.dropMissed(&d, now)
	since := s.LastAt
	if !s.LastLive {
		p.fireFirst(&d, now)
		since = now
	} else {
		p.overlaps(&d, now)
	}
	next, ok := p.Next(d.Cursor)
	if ok {
		d.NextAt = next
	}
	if !d.Queued.IsZero() || ok && !next.After(now) { // a slot waits
		d.NextAt, d.Waits = waitFrom(since, now), true
		if ok && next.After(now) && next.Before(d.NextAt) {
			d.NextAt = next // it is to be decided on time
		}
	}
	return d
}

// cursor returns through which slot all are decided. Nothing before a schedule's creation was missed. A cursor that is ahead by
// more than a period comes from a clock that was set back since: it would hold up the schedule for long. It never goes below a
// slot that was fired or is to be.
func (p *Plan) cursor(s State, now time.Time) time.Time {
	c := s.Cursor
	if c.IsZero() {
		c = s.Created
	}
	if c.IsZero() || c.After(now) && c.After(now.Add(p.period(now))) {
		c = now
		if !s.Queued.After(s.Cursor) {
			c = latest(c, s.Queued)
		}
	}
	return latest(c, s.LastSlot).UTC().Truncate(time.Millisecond)
}

// period returns the time between the next two slots; the longest that there is where there are none.
func (p *Plan) period(now time.Time) time.Duration {
	if first, ok := p.Next(now); ok {
		if second, ok := p.Next(first); ok {
			return second.Sub(first)
		}
	}
	return MaxInterval
}

// dropMissed moves the cursor past those missed slots that do not fire.
func (p *Plan) dropMissed(d *Decision, now time.Time) {
	late := now.Add(-onTime) // slots before this were missed
	keep := now.Add(-max(p.catchUp, onTime))
	switch p.missed {
	case MissedNone:
		keep = late
	case MissedOne:
		if newest, ok := p.last(d.Cursor, late.Add(-1)); ok {
			keep = latest(keep, newest)
		}
	}
	if n := p.count(d.Cursor, keep); n > 0 {
		d.Missed += n
		d.Cursor = keep.Add(-1).UTC().Truncate(time.Millisecond)
	}
}

// fireFirst fires the first slot that waits or has come, where the last task is not live.
func (p *Plan) fireFirst(d *Decision, now time.Time) {
	if at := d.Queued; !at.IsZero() {
		d.Queued = time.Time{}
		slot := Slot{At: at, RunAt: at}
		if !at.After(now) { // else a clock was set back, and the task must not be live until then
			slot = p.slot(at)
		} else {
			slot.RunAt = now
		}
		d.Fire = []Slot{slot}
		return
	}
	if at, ok := p.Next(d.Cursor); ok && !at.After(now) {
		d.Fire, d.Cursor = []Slot{p.slot(at)}, at
	}
}

// overlaps decides the slots that have come while the last task is live. All of them but one are on time, or one that waits ends
// the loop, so that they are few.
func (p *Plan) overlaps(d *Decision, now time.Time) {
	for {
		at, ok := p.Next(d.Cursor)
		if !ok || at.After(now) || p.missed == MissedAll && now.Sub(at) > onTime {
			return
		}
		d.Cursor = at
		if p.overlap == OverlapQueue && d.Queued.IsZero() {
			d.Queued = at
		} else {
			d.Missed++
		}
	}
}

// decideAfter decides for a schedule with after. Its task is due that long after the end of the one before, and the first one at
// once, or at from. It neither misses a slot nor overlaps. Queued keeps the next one, as the row of the last task may be
// past its retention by then.
func (p *Plan) decideAfter(s State, now time.Time) Decision {
	d := Decision{Cursor: latest(s.Cursor, s.LastSlot)}
	switch due := p.dueAfter(s, now); {
	case s.LastLive && !p.until.IsZero() && !now.Before(p.until):
	case s.LastLive:
		d.NextAt = waitFrom(s.LastAt, now)
	case !p.until.IsZero() && !due.Before(p.until) || due.Year() > MaxYear:
	case due.After(now):
		d.Queued, d.NextAt = due, due
	default:
		slot := p.slot(due)
		if !due.After(s.LastSlot) { // a clock was set back: the slot is known by another time, for that must rise
			slot.At = s.LastSlot.Add(time.Millisecond)
		}
		d.Fire, d.Cursor, d.NextAt = []Slot{slot}, latest(d.Cursor, slot.At), waitFrom(now, now)
	}
	return d
}

// dueAfter returns when the next task of a schedule with after is due, in whole milliseconds.
func (p *Plan) dueAfter(s State, now time.Time) time.Time {
	var due time.Time
	switch {
	case s.LastTask == 0 && s.Created.IsZero():
		due = now
	case s.LastTask == 0:
		due = s.Created
	case !s.LastEnd.IsZero():
		due = s.LastEnd.Add(p.after)
	case !s.Queued.IsZero():
		due = s.Queued
	default:
		due = s.LastSlot.Add(p.after)
	}
	return latest(due, p.from).UTC().Truncate(time.Millisecond)
}

// slot adds the jitter: less than the schedule's, and the same for a slot on every agent.
func (p *Plan) slot(at time.Time) Slot {
	s := Slot{At: at, RunAt: at}
	if ms := uint64(p.jitter.Milliseconds()); ms > 0 {
		sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(p.spec.Name), uint64(at.UnixMilli())))
		s.RunAt = at.Add(time.Duration(binary.BigEndian.Uint64(sum[:])%ms) * time.Millisecond)
	}
	return s
}

// waitFrom returns when to look again at what has been waited for since a moment.
func waitFrom(since, now time.Time) time.Time {
	if since.IsZero() {
		since = now
	}
	return now.Add(min(max(now.Sub(since)/8, shortestWait), longestWait))
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
