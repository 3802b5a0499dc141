package ops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0 µs": 0, "850 µs": 850*time.Microsecond + 400, "1.2 ms": 1234 * time.Microsecond, "35 ms": 35 * time.Millisecond,
		"2.5 s": 2500 * time.Millisecond, "3m20s": 200 * time.Second, "-1.0 ms": -time.Millisecond,
	} {
		require.Equal(t, want, Duration(d))
	}
}

func TestTime(t *testing.T) {
	require.Empty(t, Time(time.Time{}))
	require.Equal(t, "1970-01-01T00:00:00.001Z", Time(time.UnixMilli(1).In(time.FixedZone("x", 3600))))
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 12345: "12,345", 999_999: "999,999", 1_000_000: "1,000,000",
		-999: "-999", -1000: "-1,000", -123456: "-123,456",
	} {
		require.Equal(t, want, Thousands(n))
	}
	require.Equal(t, "1 task", Tasks(1))
	require.Equal(t, "0 tasks", Tasks(0))
	require.Equal(t, "1,200 tasks", Tasks(1200))
}

func TestPercentIsNeverRoundedUp(t *testing.T) {
	for share, want := range map[float64]string{
		0: "0%", 0.1: "10%", 0.3: "30%", 0.3333: "33.3%", 0.9999: "99.9%", 0.99999: "99.9%", 1: "100%", 0.57: "57%",
	} {
		require.Equal(t, want, Percent(share))
	}
}

func TestSpeed(t *testing.T) {
	for rate, want := range map[float64]string{0: "0/s", 0.5: "30.0/min", 1: "1/s", 1204.7: "1,204/s"} {
		require.Equal(t, want, Speed(rate))
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"grüße\n\tok":          "grüße\n\tok",
		"\x1b[2Jgone":          `\x1b[2Jgone`,
		"a\rb\x00c":            `a\rb\x00c`,
		"\xff\xfe":             `\xff\xfe`,
		"right\u202eto left":   `right\u202eto left`,
		"\u009b31m not a line": `\u009b31m not a line`,
	} {
		require.Equal(t, want, Printable(in))
	}
}

func TestOneLine(t *testing.T) {
	require.Equal(t, "a b c", OneLine(" a\n\tb  c\n", 10))
	require.Equal(t, "äöü…", OneLine("äöüäöü", 4))
	require.Equal(t, "äöüä", OneLine("äöüä", 4))
}

func FuzzPrintable(f *testing.F) {
	f.Add("\x1b]0;title\x07")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range Printable(s) {
			require.False(t, r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0, "%q", Printable(s))
		}
	})
}
