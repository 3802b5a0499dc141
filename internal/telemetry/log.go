package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// NewLogger writes one event a line to w: text for people where terminal is true, JSON otherwise. Times are RFC 3339
// in UTC.
func NewLogger(w io.Writer, level slog.Level, terminal bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: plainValues}
	if terminal {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// plainValues writes times in UTC, and durations as people read them rather than as a count of nanoseconds.
func plainValues(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime:
		a.Value = slog.StringValue(a.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
	case slog.KindDuration:
		a.Value = slog.StringValue(roundDuration(a.Value.Duration()).String())
	}
	return a
}

// roundDuration drops the digits that do not matter in a log.
func roundDuration(d time.Duration) time.Duration {
	switch {
	case d >= time.Minute || d <= -time.Minute:
		return d.Round(time.Second)
	case d >= time.Second || d <= -time.Second:
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Microsecond)
}

// ParseLevel reads a log level: debug, info, warn or error.
func ParseLevel(s string) (slog.Level, error) {
	switch strings.ToLower(s) {
	case "debug":
		return slog.LevelDebug, nil
	case "", "info":
		return slog.LevelInfo, nil
	case "warn", "warning":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %q: use debug, info, warn or error", s)
}
