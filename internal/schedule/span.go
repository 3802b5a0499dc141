package schedule

import "time"

// last returns the last slot after one moment that is not after another; false: there is none. It takes about as many steps as
// the time between the two has digits in binary.
func (p *Plan) last(after, upTo time.Time) (time.Time, bool) {
	slot, ok := p.Next(after)
	if !ok || slot.After(upTo) {
		return time.Time{}, false
	}
	lo, hi := slot, upTo // lo is a slot; there is none after hi that counts
	for hi.Sub(lo) > time.Millisecond {
		next, ok := p.Next(lo.Add(hi.Sub(lo) / 2))
		if ok && !next.After(upTo) {
			lo = next
		} else {
			hi = lo.Add(hi.Sub(lo) / 2)
		}
	}
	return lo, true
}

// maxCount bounds count, and counted the days that it looks at.
const (
	maxCount = 10_000
	counted  = 1000
)

// count returns how many slots are after one moment and before another. It is exact up to maxCount, where these slots are on no
// more than counted days, and no more than that number otherwise.
func (p *Plan) count(after, before time.Time) int {
	first, ok := p.Next(after)
	if !ok || !first.Before(before) {
		return 0
	}
	if !p.until.IsZero() && p.until.Before(before) {
		before = p.until
	}
	if p.cron == nil {
		return int(min((before.Sub(first)-1)/p.every+1, maxCount))
	}
	return p.cron.count(first.Unix(), before.Add(time.Second-1).Unix())
}

// count returns how many slots there are from the slot first to before a moment, both in seconds since 1970. What is left of a
// slot's day, or until the next change of clocks, it counts as a whole: if that slot is no repeated wall time, none after it is.
func (c *cron) count(first, before int64) (n int) {
	slot, ok := first, true
	for days := 0; days < counted && n < maxCount && ok && slot < before; days++ {
		n++
		offset := c.zone.offset(slot)
		day := floorDiv(slot+offset, daySeconds)
		wall := day*daySeconds - offset // where the day begins
		end := min(wall+daySeconds, before)
		if change, changes := c.zone.change(slot, end); changes {
			end = change
		}
		if c.matchesDay(day) { // else clocks were set ahead to it
			n += c.minutesIn(int(slot-wall)/60+1, int(end-wall+59)/60)
		}
		slot, ok = c.next(end - 1)
	}
	return min(n, maxCount)
}

// shortestGap returns the shortest time between two times of day at which an expression fires, as if it fired on every day: 24
// hours where it has one time only. Days, zones and changes of clocks do not count, so that SQL can have the same rule.
func (c *cron) shortestGap() time.Duration {
	first, _ := c.minuteFrom(0)
	gap, last := 24*60, first // in minutes
	for m, ok := c.minuteFrom(first + 1); ok; m, ok = c.minuteFrom(m + 1) {
		gap, last = min(gap, m-last), m
	}
	return time.Duration(min(gap, 24*60-last+first)) * time.Minute
}
