package sqlite

import (
	"fmt"
	"time"
)

// layout is how times stand in the file: UTC with milliseconds, so that the order of the text is the order of time.
const layout = "2006-01-02T15:04:05.000Z"

// stamp writes a time as it stands in the file. Every renewal and settlement does, so it is done by hand: Format takes
// three times as long.
func stamp(t time.Time) string {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.Format(layout)
	}
	hour, minute, second := t.Clock()
	b := [len(layout)]byte{4: '-', 7: '-', 10: 'T', 13: ':', 16: ':', 19: '.', 23: 'Z'}
	digits(b[0:4], year)
	digits(b[5:7], int(month))
	digits(b[8:10], day)
	digits(b[11:13], hour)
	digits(b[14:16], minute)
	digits(b[17:19], second)
	digits(b[20:23], t.Nanosecond()/int(time.Millisecond))
	return string(b[:])
}

// digits fills b with the last digits of n.
func digits(b []byte, n int) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text) // which is layout, and quicker
	if err != nil {
		return t, fmt.Errorf("read a time from the store: %w", err)
	}
	return t, nil
}

// timeOf reads a time into t. NULL leaves it zero; so does text that is no time, which only an application can have written
// there: one such row must not keep all others from being read.
type timeOf struct{ t *time.Time }

// Scan implements sql.Scanner.
func (x timeOf) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		if t, err := parseTime(v); err == nil {
			*x.t = t
		}
		return nil
	}
	return unexpected("a time", v)
}

// pointer is nil for the zero time.
func pointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// null is NULL for the zero value.
func null[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}
