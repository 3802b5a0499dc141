package schedule

import (
	"math/bits"
	"time"
)

// cron is a compiled expression. It knows wall time: seconds since 1970-01-01T00:00 by the clock on the wall, as if that were
// UTC. Which moment a wall time is, its zone says.
type cron struct {
	minute, hour, dom, month, dow uint64 // sets of values, a bit each; day of week 0 to 6

	// These fields begin with a *: hourStar decides on the night when clocks are set back, the others on the rule for days.
	hourStar, domStar, dowStar bool

	zone *zone
}

const (
	daySeconds = 24 * 60 * 60
	lastWall   = 253402300799 // 9999-12-31T23:59:59
	firstWall  = -62135596800 // 0001-01-01T00:00:00
)

// nextWall returns the first matching wall time that is not before w; false: there is none up to the year 9999.
func (c *cron) nextWall(w int64) (int64, bool) {
	minute := -floorDiv(-w, 60) // rounded up
	day := floorDiv(minute, 24*60)
	if c.matchesDay(day) {
		if m, ok := c.minuteFrom(int(minute - day*24*60)); ok {
			return day*daySeconds + int64(m)*60, true
		}
	}
	day, ok := c.nextDay(day + 1)
	if !ok {
		return 0, false
	}
	m, _ := c.minuteFrom(0)
	return day*daySeconds + int64(m)*60, true
}

// minuteFrom returns the first matching minute of a day from m on, 0 to 1439.
func (c *cron) minuteFrom(m int) (int, bool) {
	hour, minute := m/60, m%60
	if c.hour&(1<<hour) != 0 {
		if rest := c.minute >> minute << minute; rest != 0 {
			return hour*60 + bits.TrailingZeros64(rest), true
		}
	}
	later := c.hour >> (hour + 1) << (hour + 1)
	if later == 0 {
		return 0, false
	}
	return bits.TrailingZeros64(later)*60 + bits.TrailingZeros64(c.minute), true
}

// minutesIn returns how many minutes of a day from a to before b match, if the day does.
func (c *cron) minutesIn(a, b int) (n int) {
	for hour := a / 60; hour*60 < b; hour++ {
		if c.hour&(1<<hour) == 0 {
			continue
		}
		set := c.minute
		if from := a - hour*60; from > 0 {
			set = set >> from << from
		}
		if to := b - hour*60; to < 60 {
			set &= 1<<to - 1
		}
		n += bits.OnesCount64(set)
	}
	return n
}

// nextDay returns the first matching day from one on, as days since 1970. Months without a match cost a step each: the longest
// time without a matching day is 40 years (29 February on one day of the week, about 2100).
func (c *cron) nextDay(day int64) (int64, bool) {
	for day*daySeconds <= lastWall {
		year, month, dom := time.Unix(day*daySeconds, 0).UTC().Date()
		length := monthLength(int(month), leap(year))
		if c.month&(1<<month) != 0 {
			for d := dom; d <= length; d++ {
				if c.matchesDate(d, weekday(day+int64(d-dom))) {
					return day + int64(d-dom), true
				}
			}
		}
		day += int64(length - dom + 1)
	}
	return 0, false
}

// matchesDay reports whether a day matches, given as days since 1970.
func (c *cron) matchesDay(day int64) bool {
	_, month, dom := time.Unix(day*daySeconds, 0).UTC().Date()
	return c.month&(1<<month) != 0 && c.matchesDate(dom, weekday(day))
}

// matchesDate applies the rule for days: where both fields name days, either may match, else both must.
func (c *cron) matchesDate(dom, dow int) bool {
	inMonth, inWeek := c.dom&(1<<dom) != 0, c.dow&(1<<dow) != 0
	if !c.domStar && !c.dowStar {
		return inMonth || inWeek
	}
	return inMonth && inWeek
}

// weekday returns the day of the week, 0 for Sunday, of a day since 1970, which began on a Thursday.
func weekday(day int64) int { return int(day + 4 - 7*floorDiv(day+4, 7)) }

func leap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func monthLength(month int, leap bool) int {
	switch month {
	case 2:
		if leap {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// floorDiv divides and rounds down, also below zero.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}
