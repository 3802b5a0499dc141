package main

import (
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
)

// span is a length of time on the command line: 90s, 1h30m, 7d. It is never negative.
type span time.Duration

// UnmarshalText reads a span.
func (s *span) UnmarshalText(text []byte) error {
	d, err := ops.ParseSpan(string(text))
	*s = span(d)
	return err
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
