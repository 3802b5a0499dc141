package schedule

import "time"

// Next returns the first slot after a moment; false: there is none. Slots are UTC, whole milliseconds, not before from, before
// until (a slot at that very moment is none), and not past the year 9999. A schedule with after has no slots of its own.
func (p *Plan) Next(after time.Time) (time.Time, bool) {
	if !p.from.IsZero() && after.Before(p.from) {
		after = p.from.Add(-1)
	}
	switch {
	case after.Year() > MaxYear+1: // of any zone
		return time.Time{}, false
	case after.Year() < 1:
		after = time.Unix(firstWall, 0)
	}
	var next time.Time
	switch {
	case p.cron != nil:
		t, ok := p.cron.next(after.Unix())
		if !ok {
			return time.Time{}, false
		}
		next = time.Unix(t, 0)
	case p.every != 0:
		next = p.nextEvery(after)
	default:
		return time.Time{}, false
	}
	next = next.UTC()
	if next.Year() > MaxYear || !p.until.IsZero() && !next.Before(p.until) {
		return time.Time{}, false
	}
	return next, true
}

// nextEvery counts from from, or from 1970, in both directions.
func (p *Plan) nextEvery(after time.Time) time.Time {
	base, every := p.base(), p.every.Milliseconds()
	return time.UnixMilli(base + (floorDiv(after.UnixMilli()-base, every)+1)*every)
}

// base returns the slot from which every counts, in milliseconds since 1970.
func (p *Plan) base() int64 {
	if p.from.IsZero() {
		return 0
	}
	return p.from.UnixMilli()
}

// turns bounds how many wall times one search looks at: those of a day that is repeated as a whole, a minute each, and some.
const turns = 24*60 + 100

// next returns the first slot after a moment, both in seconds since 1970.
//
// Where clocks are set ahead, the wall times that are left out are one slot, at the moment of the change. Where they are set
// back, an expression whose hours begin with * fires in both passes of the repeated time, and any other one in the first.
func (c *cron) next(after int64) (int64, bool) {
	t, beyond := after, int64(1) // 1: the moment t is excluded itself, but a change right after it is not
	for range turns {
		offset := c.zone.offset(t)
		wall, ok := c.nextWall(t + beyond + offset)
		if !ok {
			return 0, false
		}
		slot := wall - offset // unless the offset changes before
		change, changes := c.zone.change(t, min(slot, t+reach))
		switch {
		case changes:
			if wall < change+c.zone.offset(change) {
				return change, true // it is left out
			}
			t, beyond = change, 0
		case slot > t+reach:
			t, beyond = slot-reach, 0 // changes before that move no clock past the wall times that do not match
		case !c.hourStar && c.zone.repeats(slot, wall):
			t, beyond = slot, 1
		default:
			return slot, true
		}
	}
	return 0, false
}
