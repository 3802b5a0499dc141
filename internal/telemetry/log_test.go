package telemetry

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLoggerWritesJSONOffATerminal(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, slog.LevelInfo, false)
	log.Debug("hidden")
	elsewhere := time.FixedZone("x", 3600)
	log.Info("started", "task", 7, "took", 1500*time.Microsecond+7, "at", time.Unix(0, 0).In(elsewhere))

	var event map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &event), "one event is one line of JSON: %s", out.String())
	require.Equal(t, "started", event["msg"])
	require.Equal(t, "INFO", event["level"])
	require.EqualValues(t, 7, event["task"])
	require.Equal(t, "1.5ms", event["took"])
	require.Equal(t, "1970-01-01T00:00:00.000Z", event["at"])
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, event["time"])
}

func TestLoggerWritesTextOnATerminal(t *testing.T) {
	var out bytes.Buffer
	NewLogger(&out, slog.LevelInfo, true).Info("a\nforged line", "output", "x\ny")
	require.Contains(t, out.String(), `level=INFO msg="a\nforged line" output="x\ny"`)
	require.Equal(t, 1, bytes.Count(out.Bytes(), []byte("\n")), "a task's own output cannot start a line")
}

func TestParseLevel(t *testing.T) {
	for in, want := range map[string]slog.Level{
		"": slog.LevelInfo, "DEBUG": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	} {
		got, err := ParseLevel(in)
		require.NoError(t, err)
		require.Equal(t, want, got, in)
	}
	_, err := ParseLevel("loud")
	require.EqualError(t, err, `log level "loud": use debug, info, warn or error`)
}

func TestRoundDuration(t *testing.T) {
	for in, want := range map[time.Duration]string{
		1234567 * time.Nanosecond:                "1.235ms",
		90*time.Second + 400*time.Millisecond:    "1m30s",
		2*time.Second + 123456*time.Microsecond:  "2.123s",
		-2*time.Second - 123456*time.Microsecond: "-2.123s",
	} {
		require.Equal(t, want, roundDuration(in).String())
	}
}
