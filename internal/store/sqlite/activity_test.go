package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
)

func BenchmarkActivity(b *testing.B) { storetest.BenchActivity(b, newHarness(b)) }

// TestHostileActivity: an application may have written anything into the file. It is passed over, and the rest is read.
func TestHostileActivity(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := store.ActivityMinute.Of(h.Now())
	row := store.ActivityRow{Step: store.ActivityMinute, At: at, Type: "a"}
	row.Outcomes[0] = 7
	_, err := h.KeepActivity(t.Context(), 1, []store.ActivityRow{row})
	require.NoError(t, err)
	for i, values := range []string{
		`'` + stamp(at) + `x', 'b', 1, 1, 1, '[1]', '[1]'`,
		`'` + stamp(at) + `', 'c', 1, -9223372036854775807, 9223372036854775807, '{"a": [[', ']]],,,99999999999999999999999'`,
		`'` + stamp(at) + `', 'd', -1, 9223372036854775807, 9223372036854775807, '', CAST(x'ff00' AS TEXT)`,
		`'', '', 1, 1, 1, '', ''`,
	} {
		require.NoError(t, h.exec(t, `INSERT INTO activity (step, at, type, session, started, ended, outcomes, latency) VALUES (1, `+values+`)`), i)
	}
	for _, typ := range []string{"", "a", "c", "d"} {
		a, err := h.Activity(t.Context(), store.ActivityMinute, 60, typ)
		require.NoError(t, err, typ)
		for _, s := range a.Rows {
			if s.Type == "a" {
				require.Equal(t, int64(7), s.Of(task.Succeeded))
			}
		}
	}
	_, err = h.Maintain(t.Context(), time.Hour)
	require.NoError(t, err)
}
