package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Words says when a schedule fires, as in "at 03:00 every day, Asia/Singapore" and "every 15 minutes".
func (p *Plan) Words() string {
	var b strings.Builder
	switch {
	case p.cron != nil:
		b.WriteString(p.cron.words(p.spec.Timezone))
	case p.every != 0:
		b.WriteString("every " + long(p.every, true))
	default:
		b.WriteString(long(p.after, false) + " after the end of the task before")
	}
	if p.jitter > 0 {
		b.WriteString(", up to " + long(p.jitter, false) + " later")
	}
	if !p.from.IsZero() {
		b.WriteString(", from " + p.from.Format(time.RFC3339Nano))
	}
	if !p.until.IsZero() {
		b.WriteString(", until " + p.until.Format(time.RFC3339Nano))
	}
	return b.String()
}

// words names the zone where it makes a difference.
func (c *cron) words(zone string) string {
	times, anyHour := c.timeWords()
	days := c.dayWords()
	switch {
	case days == "" && anyHour && c.hour == allHours && c.hourStar:
		return times
	case days == "" && anyHour:
	case days == "":
		times += " every day"
	default:
		times += " " + days
	}
	if zone == "" {
		zone = defaultTimezone
	}
	return times + ", " + zone
}

const (
	allHours   = 1<<24 - 1
	allMinutes = 1<<60 - 1
	listed     = 6 // times of a day that are listed, at most
)

// timeWords says when in a day. anyHour: it is a rate, and goes without "every day".
func (c *cron) timeWords() (text string, anyHour bool) {
	minutes, hours := values(c.minute), values(c.hour)
	step, stepped := stepOf(c.minute, 60)
	hourStep, hourStepped := stepOf(c.hour, 24)
	switch {
	case c.hour == allHours && c.minute == allMinutes:
		return "every minute", true
	case c.hour == allHours && c.minute == 1:
		return "every hour", true
	case c.hour == allHours && stepped:
		return fmt.Sprintf("every %d minutes", step), true
	case c.hour == allHours:
		return minuteWords(minutes) + " of every hour", true
	case len(minutes)*len(hours) <= listed:
		times := make([]string, 0, listed)
		for _, h := range hours {
			for _, m := range minutes {
				times = append(times, clock(h, m))
			}
		}
		return "at " + andList(times), false
	case hourStepped && c.minute == 1:
		return fmt.Sprintf("every %d hours", hourStep), true
	case hourStepped:
		return fmt.Sprintf("%s of every %d hours", everyMinute(c.minute, minutes, step, stepped), hourStep), true
	case c.minute == 1 && isRange(hours):
		return fmt.Sprintf("every hour from %s to %s", clock(hours[0], 0), clock(hours[len(hours)-1], 0)), false
	case isRange(hours):
		last := hours[len(hours)-1]
		return fmt.Sprintf("%s from %s to %s", everyMinute(c.minute, minutes, step, stepped),
			clock(hours[0], minutes[0]), clock(last, minutes[len(minutes)-1])), false
	}
	return everyMinute(c.minute, minutes, step, stepped) + " of " + plural("hour", hours), false
}

func everyMinute(set uint64, minutes []int, step int, stepped bool) string {
	switch {
	case set == allMinutes:
		return "every minute"
	case stepped:
		return fmt.Sprintf("every %d minutes", step)
	}
	return minuteWords(minutes)
}

func minuteWords(minutes []int) string { return "at " + plural("minute", minutes) }

// dayWords says on which days; "": on all.
func (c *cron) dayWords() string {
	allDom, allDow, allMonths := c.dom == 1<<32-2, c.dow == 1<<7-1, c.month == 1<<13-2
	dom, dow, months := values(c.dom), values(c.dow), values(c.month)
	or := !c.domStar && !c.dowStar
	if or && (allDom || allDow) { // either field matches every day
		allDom, allDow = true, true
	}
	var text string
	switch {
	case allDom && allDow:
	case allDom:
		text = "on " + named(dow, time.Weekday.String)
	case allDow && len(dom) == 1 && len(months) == 1:
		return fmt.Sprintf("on %d %s", dom[0], time.Month(months[0]))
	case allDow:
		text = "on " + plural("day", dom) + " of the month"
	case or:
		text = "on " + plural("day", dom) + " of the month, and on " + named(dow, time.Weekday.String)
	default:
		text = "on " + plural("day", dom) + " of the month if that is " + orList(names(dow, time.Weekday.String))
	}
	if allMonths {
		return text
	}
	if text == "" {
		text = "every day"
	}
	return text + " in " + named(months, time.Month.String)
}

// values lists the members of a set.
func values(set uint64) (list []int) {
	for ; set != 0; set &= set - 1 {
		list = append(list, bits.TrailingZeros64(set))
	}
	return list
}

// stepOf returns n if a set is every n-th of size values from 0 on, without a shorter step at the end.
func stepOf(set uint64, size int) (n int, ok bool) {
	for n = 2; n <= size/2; n++ {
		if size%n != 0 {
			continue
		}
		var want uint64
		for v := 0; v < size; v += n {
			want |= 1 << v
		}
		if set == want {
			return n, true
		}
	}
	return 0, false
}

// isRange reports whether values follow each other; one alone is no range.
func isRange(list []int) bool { return len(list) > 1 && list[len(list)-1]-list[0] == len(list)-1 }

func clock(hour, minute int) string { return fmt.Sprintf("%02d:%02d", hour, minute) }

// plural is a noun with its numbers.
func plural(noun string, list []int) string {
	if len(list) == 1 {
		return noun + " " + strconv.Itoa(list[0])
	}
	return noun + "s " + named(list, strconv.Itoa)
}

// named lists values, three and more in a row as a range.
func named[T ~int](list []int, name func(T) string) string {
	if len(list) > 2 && isRange(list) {
		return name(T(list[0])) + " to " + name(T(list[len(list)-1]))
	}
	return andList(names(list, name))
}

func names[T ~int](list []int, name func(T) string) []string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = name(T(v))
	}
	return texts
}

func andList(texts []string) string { return join(texts, " and ") }
func orList(texts []string) string  { return join(texts, " or ") }

func join(texts []string, last string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:len(texts)-1], ", ") + last + texts[len(texts)-1]
}

// long spells a duration, as in "1 hour 30 minutes". after "every" a single unit goes without its 1.
func long(d time.Duration, every bool) string {
	var parts []string
	single := false
	for _, u := range []struct {
		length time.Duration
		name   string
	}{
		{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}, {time.Millisecond, "millisecond"},
	} {
		n := d / u.length
		d %= u.length
		switch {
		case n == 1:
			parts = append(parts, "1 "+u.name)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", n, u.name))
		}
		single = len(parts) == 1 && strings.HasPrefix(parts[0], "1 ")
	}
	if every && single {
		return parts[0][2:]
	}
	return strings.Join(parts, " ")
}
