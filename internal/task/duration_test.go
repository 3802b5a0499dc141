package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0s": 0, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "1h30m": 90 * time.Minute, "500ms": 500 * time.Millisecond,
		"1.5s": 1500 * time.Millisecond, "3650d": MaxDuration,
	} {
		got, err := ParseDuration(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{
		"", "30", "1.5", "s", "-1s", "+1s", "1d-1h", "1h2d", "1 s", " 1s", "1s ", "3651d", "1d2562047h47m", "99999999999999999999d", "87601h", "1w", "1dd", "0x1s", "inf", "NaN",
	} {
		_, err := ParseDuration(in)
		require.Error(t, err, in)
	}
}

func TestFormatDurationReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(MaxDuration)).Draw(t, "d"))
		got, err := ParseDuration(FormatDuration(d))
		require.NoError(t, err)
		require.Equal(t, d, got)
	})
}
