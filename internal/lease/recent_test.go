package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecent(t *testing.T) {
	var r recent
	require.Zero(t, r.of(time.Hour, 5), "nothing is known of what came before")
	require.EqualValues(t, 7, r.of(time.Hour+10*time.Second, 12))
	require.EqualValues(t, 7, r.of(time.Hour+59*time.Second, 12))
	require.EqualValues(t, 10, r.of(time.Hour+61*time.Second, 15))
	require.EqualValues(t, 4, r.of(time.Hour+71*time.Second, 16), "what is older than a minute is over")
	require.Zero(t, r.of(2*time.Hour, 16))
	for i := range 100_000 {
		require.LessOrEqual(t, r.of(2*time.Hour+time.Duration(i)*time.Millisecond, int64(16+i)), int64(61_000))
	}
	require.LessOrEqual(t, len(r.counts), 62)
}
