package sqlite

import (
	"database/sql"
	"fmt"
	"time"
)

// layout is how times stand in the file: UTC with milliseconds, so that the order of the text is the order of time.
const layout = "2006-01-02T15:04:05.000Z"

func stamp(t time.Time) string { return t.UTC().Format(layout) }

func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(layout, text)
	if err != nil {
		return t, fmt.Errorf("read a time from the store: %w", err)
	}
	return t, nil
}

// timeOf reads a time into t. NULL leaves it zero.
type timeOf struct{ t *time.Time }

// Scan implements sql.Scanner.
func (x timeOf) Scan(v any) error {
	var text sql.NullString
	if err := text.Scan(v); err != nil || !text.Valid {
		return err
	}
	t, err := parseTime(text.String)
	*x.t = t
	return err
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
