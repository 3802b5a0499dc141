package ops

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

const maxDays = 36500 // keeps sums of spans and dates from overflowing

// ParseSpan reads a length of time as people write it: 90s, 1h30m, 7d, 1d12h. It is never negative.
func ParseSpan(text string) (time.Duration, error) {
	rest := text
	var total time.Duration
	if days, after, ok := strings.Cut(rest, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || n > maxDays {
			return 0, fmt.Errorf("invalid duration %q: use a form such as 90s, 1h30m or 7d", text)
		}
		total, rest = time.Duration(n)*24*time.Hour, after
	}
	if rest != "" || total == 0 && text == "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 || d > maxDays*24*time.Hour {
			return 0, fmt.Errorf("invalid duration %q: use a form such as 90s, 1h30m or 7d", text)
		}
		total += d
	}
	return total, nil
}

// ParseSince reads since when: a time as RFC 3339 has it, or how long that is ago. It is UTC. Its errors are *store.InputError.
func ParseSince(text string, now time.Time) (time.Time, error) {
	if d, err := ParseSpan(text); err == nil {
		return now.Add(-d).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		const most = 100
		return at, &store.InputError{Text: "since must be an age such as 2h or 7d, or a time such as 2026-11-20T08:00:00Z, not " +
			strconv.Quote(OneLine(text, most))}
	}
	return at.UTC(), nil
}
