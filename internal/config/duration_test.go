package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0s": 0, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "1h30m": 90 * time.Minute, "500ms": 500 * time.Millisecond,
		"1.5s": 1500 * time.Millisecond, "3650d": maxDuration,
	} {
		got, err := parseDuration(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{
		"", "30", "1.5", "s", "-1s", "+1s", "1d-1h", "1h2d", "1 s", " 1s", "1s ", "3651d", "99999999999999999999d", "87601h", "1w", "1dd", "0x1s", "inf", "NaN",
	} {
		_, err := parseDuration(in)
		require.Error(t, err, in)
	}
}

func TestFormatDurationReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(maxDuration)).Draw(t, "d"))
		got, err := parseDuration(formatDuration(d))
		require.NoError(t, err)
		require.Equal(t, d, got)
	})
}

func TestPlainNumber(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "-0", "7": "7", "1.50": "1.50", "1e3": "1000", "1E+3": "1000", "1.5e3": "1500", "15e-1": "1.5", "1e-3": "0.001", "-1.25e1": "-12.5",
		"100e-2": "1", "0e5": "0", "123.456e2": "12345.6", "9007199254740993": "9007199254740993",
	} {
		got, err := plainNumber(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"1e401", "1e-401", "1e99999999999999999999", "1p9999"} {
		_, err := plainNumber(in)
		require.ErrorIs(t, err, errNumber, in)
	}
}
