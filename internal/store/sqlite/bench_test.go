package sqlite

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// BenchmarkLife measures a row from its claim to the archive, with a renewal, in calls of 1000 rows: without a batch, and in
// one. The times of its parts are processor time.
func BenchmarkLife(b *testing.B) {
	for _, batch := range []bool{false, true} {
		b.Run(fmt.Sprintf("batch=%t", batch), func(b *testing.B) { life(b, batch) })
	}
}

func life(b *testing.B, batch bool) {
	b.Helper()
	const rows = 1000
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h := newHarness(b)
	session, err := h.Join(b.Context(), store.Agent{Name: "bench", Presence: time.Hour})
	require.NoError(b, err)
	spent := map[string]time.Duration{}
	timed := func(name string, f func() error) {
		start := cpuTime()
		require.NoError(b, f())
		spent[name] += cpuTime() - start
	}
	timed("insert", func() error {
		of := any(nil)
		if batch {
			of = 1
			require.NoError(b, h.exec(b, "INSERT INTO batch DEFAULT VALUES"))
		}
		return h.exec(b, fmt.Sprintf(`
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO task (type, payload, batch_id) SELECT 'x', json_object('invoice', i), ? FROM n`, rows*b.N), of)
	})
	b.ResetTimer()
	for i := range b.N {
		var tasks []task.Task
		timed("claim", func() (err error) {
			tasks, err = h.Claim(b.Context(), store.Claim{Session: session, Number: int64(i), Wants: []store.Want{
				{Type: "x", Phase: task.Run, N: rows, Window: time.Minute},
			}})
			return err
		})
		require.Len(b, tasks, rows)
		renewals := make([]store.Renewal, rows)
		settlements := make([]store.Settlement, rows)
		for j, t := range tasks {
			renewals[j] = store.Renewal{ID: t.ID, Fence: t.Fence, Window: time.Hour}
			settlements[j] = succeeded(t)
		}
		timed("renew", func() error {
			_, err := h.Renew(b.Context(), session, renewals)
			return err
		})
		timed("settle", func() error {
			answers, err := h.Settle(b.Context(), session, settlements)
			require.Equal(b, store.Applied, answers[rows-1])
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

func succeeded(t task.Task) store.Settlement {
	return store.Settlement{
		ID: t.ID, Fence: t.Fence, RanFence: t.Fence, Phase: t.Phase(), Attempt: t.Attempt,
		Next:    task.Transition{State: task.StateSucceeded, Attempt: t.Attempt, EverStarted: true},
		Outcome: task.Outcome{Verdict: task.Succeeded, Result: []byte(`{"ok": true}`)},
	}
}

// BenchmarkLive measures the calls for 1000 running rows, each call for all of them: a renewal with progress, a ping by
// another way, a session heartbeat and a sweep.
func BenchmarkLive(b *testing.B) {
	const rows = 1000
	h := newHarness(b)
	p := beating(nil)
	session := h.session(b, p)
	fill(b, h, rows)
	tasks, err := h.Claim(b.Context(), store.Claim{Session: session, Number: 1, Wants: []store.Want{
		{Type: "x", Phase: task.Run, N: rows, Window: p.Window(task.Run), Policy: p.Hash("a")},
	}})
	require.NoError(b, err)
	spent := map[string]time.Duration{}
	timed := func(name string, f func() error) {
		start := time.Now()
		require.NoError(b, f())
		spent[name] += time.Since(start)
	}
	b.ResetTimer()
	for i := range b.N {
		renewals := make([]store.Renewal, rows)
		pings := make([]store.RemotePing, rows)
		for j, t := range tasks {
			report := store.Report{Progress: fmt.Appendf(nil, `{"done":%d,"total":%d}`, i, b.N)}
			renewals[j] = store.Renewal{ID: t.ID, Fence: t.Fence, Window: time.Hour, Detach: i == 0, Report: report}
			pings[j] = store.RemotePing{ID: t.ID, Fence: t.Fence, Ping: store.Ping{Progress: report.Progress}}
		}
		timed("renew", func() error {
			answers, err := h.Renew(b.Context(), session, renewals)
			require.Equal(b, store.Applied, answers[rows-1])
			return err
		})
		timed("ping", func() error {
			replies, err := h.TakePings(b.Context(), pings)
			require.Equal(b, store.Applied, replies[rows-1].Answer)
			return err
		})
		timed("present", func() error {
			st, err := h.Present(b.Context(), store.Heartbeat{Session: session, Agent: store.Agent{Name: "a", Presence: time.Hour}})
			require.Len(b, st.Held, rows)
			return err
		})
		timed("sweep", func() error {
			reaped, err := h.Sweep(b.Context(), session, rows, time.Minute, calm)
			require.Empty(b, reaped)
			return err
		})
	}
	b.StopTimer()
	for name, d := range spent {
		b.ReportMetric(float64(d.Microseconds())/float64(b.N)/1000, name+"-ms")
	}
}
