package task

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Day is the only unit beyond those of Go; it is always 24 hours.
const Day = 24 * time.Hour

// MaxDuration bounds every length of time, so that sums of them cannot overflow.
const MaxDuration = 3650 * Day

var days = regexp.MustCompile(`^([0-9]+)d`)

// ParseDuration reads lengths of time as "7d", "1h30m", "1d12h", "500ms", "1.5s". They are never negative.
func ParseDuration(s string) (time.Duration, error) {
	if strings.TrimSpace(s) != s || s == "" {
		return 0, errors.New(`write a number and a unit, as in "30s" (ms, s, m, h, d)`)
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, fmt.Errorf("a duration needs a unit: write %q (ms, s, m, h, d)", s+"s")
	}
	rest, total := s, time.Duration(0)
	if m := days.FindStringSubmatch(s); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil || n > int(MaxDuration/Day) {
			return 0, fmt.Errorf("longer than %s", FormatDuration(MaxDuration))
		}
		total, rest = time.Duration(n)*Day, s[len(m[0]):]
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || strings.ContainsAny(rest[:1], "+-") {
			return 0, fmt.Errorf(`%q is not a duration: write a number and a unit, as in "30s", "1h30m", "7d"`, s)
		}
		total += min(d, MaxDuration+1) // their sum must not overflow
	}
	if total > MaxDuration {
		return 0, fmt.Errorf("longer than %s", FormatDuration(MaxDuration))
	}
	return total, nil
}

// FormatDuration is the short form that ParseDuration reads back: "7d", "1h30m", "500ms".
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, u := range []struct {
		length time.Duration
		name   string
	}{
		{Day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"},
		{time.Millisecond, "ms"}, {time.Microsecond, "us"}, {time.Nanosecond, "ns"},
	} {
		if n := d / u.length; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d %= u.length
		}
	}
	return b.String()
}
