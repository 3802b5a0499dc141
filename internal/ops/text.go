package ops

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Duration writes a length of time as people read it: 850 µs, 1.2 ms, 350 ms, 2.5 s, 3m20s.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-d)
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// Age writes a length of time in its largest unit, which is enough to compare by: 4s, 12m, 3h, 5d. Less than a second, and
// less than none, is 0s.
func Age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(d, 0)/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// Thousands writes a number with separators: 1,234,567.
func Thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// Tasks writes a number of tasks: "1 task" or "12 tasks".
func Tasks(n int64) string {
	if n == 1 {
		return "1 task"
	}
	return Thousands(n) + " tasks"
}

// Percent writes a share, 0 to 1, with one decimal at most, rounded down: what is not all is never 100%.
func Percent(share float64) string {
	return strconv.FormatFloat(math.Floor(share*1000+1e-9)/10, 'f', -1, 64) + "%"
}

// Speed writes tasks per second; below one a second, per minute.
func Speed(perSecond float64) string {
	const few, minute = 1, 60
	if perSecond > 0 && perSecond < few {
		return fmt.Sprintf("%.1f/min", perSecond*minute)
	}
	return Thousands(int64(perSecond)) + "/s"
}

// Time writes a time as RFC 3339 in UTC, with milliseconds; "" for none.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// Printable makes what a task wrote safe to show on a terminal: lines and tabs stay, every other character that does
// not print (escape sequences among them) and every byte that is not UTF-8 is written as its escape.
func Printable(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return b.String()
}

// OneLine is Printable on a single line of no more than most characters; what is longer is cut, and shown to be.
func OneLine(s string, most int) string {
	s = Printable(strings.Join(strings.Fields(s), " "))
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}
