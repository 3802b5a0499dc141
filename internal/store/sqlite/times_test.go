package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestStampIsTheLayout(t *testing.T) {
	t.Parallel()
	same := func(t require.TestingT, at time.Time) {
		require.Equal(t, at.UTC().Format(layout), stamp(at))
		if year := at.UTC().Year(); year >= 0 && year <= 9999 {
			back, err := parseTime(stamp(at))
			require.NoError(t, err)
			require.Equal(t, at.UTC().Truncate(time.Millisecond), back)
		}
	}
	for _, at := range []time.Time{
		{}, time.Unix(0, 0), time.Unix(0, -1), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC),
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 11, 20, 8, 0, 0, 1e6, time.FixedZone("x", 3600)),
	} {
		same(t, at)
	}
	rapid.Check(t, func(t *rapid.T) {
		same(t, time.Unix(rapid.Int64Range(-62167219200, 253402300799).Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns")))
	})
}

func TestParseTimeRefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "now", "2026-11-20", "2026-11-20 08:00:00.000Z", "2026-02-30T08:00:00.000Z"} {
		_, err := parseTime(text)
		require.ErrorContains(t, err, "read a time from the store", text)
	}
}
