package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/task"
)

// BenchmarkLife is what a row costs from its claim to the archive, with a renewal, in calls of 1000 rows.
func BenchmarkLife(b *testing.B) {
	const rows = 1000
	h := newHarness(b)
	session, err := h.Join(b.Context(), lease.Agent{Name: "bench", Presence: time.Hour})
	require.NoError(b, err)
	fill(b, h, rows*b.N)
	spent := map[string]time.Duration{}
	timed := func(name string, f func() error) {
		start := time.Now()
		require.NoError(b, f())
		spent[name] += time.Since(start)
	}
	b.ResetTimer()
	for i := range b.N {
		var tasks []task.Task
		timed("claim", func() (err error) {
			tasks, err = h.Claim(b.Context(), poll.Claim{Session: session, Number: int64(i), Wants: []poll.Want{
				{Type: "x", Phase: task.Run, N: rows, Window: time.Minute},
			}})
			return err
		})
		require.Len(b, tasks, rows)
		renewals := make([]lease.Renewal, rows)
		settlements := make([]poll.Settlement, rows)
		for j, t := range tasks {
			renewals[j] = lease.Renewal{ID: t.ID, Fence: t.Fence, Window: time.Hour}
			settlements[j] = succeeded(t)
		}
		timed("renew", func() error {
			_, err := h.Renew(b.Context(), session, renewals)
			return err
		})
		timed("settle", func() error {
			answers, err := h.Settle(b.Context(), session, settlements)
			require.Equal(b, lease.Applied, answers[rows-1])
			return err
		})
	}
	b.StopTimer()
	for name, d := range spent {
		b.ReportMetric(float64(d.Microseconds())/float64(b.N)/1000, name+"-ms")
	}
	b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
}

// fill inserts n due rows of type x, by one statement.
func fill(t testing.TB, h *harness, n int) {
	t.Helper()
	require.NoError(t, h.exec(t, fmt.Sprintf(`
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO task (type, payload) SELECT 'x', json_object('invoice', i) FROM n`, n)))
}

func succeeded(t task.Task) poll.Settlement {
	return poll.Settlement{
		ID: t.ID, Fence: t.Fence, RanFence: t.Fence, Phase: t.Phase(), Attempt: t.Attempt,
		Next:    task.Transition{State: task.StateSucceeded, Attempt: t.Attempt, Touched: true},
		Outcome: task.Outcome{Verdict: task.Succeeded, Result: []byte(`{"ok": true}`)},
	}
}
