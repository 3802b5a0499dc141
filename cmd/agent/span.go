package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// span is a length of time on the command line: 90s, 1h30m, 7d. It is never negative.
type span time.Duration

const maxDays = 36500 // keeps sums of spans and dates from overflowing

// UnmarshalText reads a span.
func (s *span) UnmarshalText(text []byte) error {
	rest := string(text)
	var total time.Duration
	if days, after, ok := strings.Cut(rest, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || n > maxDays {
			return fmt.Errorf("invalid duration %q: use a form such as 90s, 1h30m or 7d", text)
		}
		total, rest = time.Duration(n)*24*time.Hour, after
	}
	if rest != "" || total == 0 && len(text) == 0 {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 || d > maxDays*24*time.Hour {
			return fmt.Errorf("invalid duration %q: use a form such as 90s, 1h30m or 7d", text)
		}
		total += d
	}
	*s = span(total)
	return nil
}

// moment is a time on the command line, with its zone.
type moment time.Time

// UnmarshalText reads RFC 3339.
func (m *moment) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("invalid time %q: use a form such as 2026-11-20T08:00:00Z or 2026-11-20T16:00:00+08:00", text)
	}
	*m = moment(t)
	return nil
}
