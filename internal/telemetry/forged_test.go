package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEventsCannotBeForged logs what rows and tasks may hold: it is one line, it adds no attribute, and a terminal obeys nothing of it.
func TestEventsCannotBeForged(t *testing.T) {
	for _, hostile := range []string{
		"a\nlevel=ERROR msg=forged", "a\r\ntime=2026-01-01 level=INFO", `a" level=ERROR x="`, "a level=ERROR", "\x1b[2J\x1b]0;title\x07", "\u009b31m",
		"\u202eevil", "\u2028\u2029", "\xff\xfe", "\x00", `a","level":"ERROR`, "=", "",
	} {
		for _, terminal := range []bool{false, true} {
			var out bytes.Buffer
			NewLogger(&out, slog.LevelInfo, terminal).Warn("failed", "type", hostile, "err", errors.New(hostile), "task", 7)
			line, ok := strings.CutSuffix(out.String(), "\n")
			require.True(t, ok)
			require.NotRegexp(t, "[\x00-\x1f]", line, "%q", hostile)
			if terminal {
				require.NotRegexp(t, "[\u007f-\u009f\u200e-\u200f\u2028-\u202e\u2066-\u2069]", line, "%q", hostile)
				require.Contains(t, line, "level=WARN msg=failed type=")
				require.True(t, strings.HasSuffix(line, " task=7"), line)
				continue
			}
			var event map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &event), line)
			require.Equal(t, "WARN", event["level"])
			require.Len(t, event, 6)
		}
	}
}
