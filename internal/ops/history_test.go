package ops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func TestHistory(t *testing.T) {
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	i := &Task{State: task.StateRunning, Attempt: 2, History: []store.AttemptInfo{
		{Phase: task.Run, Attempt: 1, Outcome: task.Undelivered, State: task.StatePending, EndedAt: start},
		{Phase: task.Run, Attempt: 1, Outcome: task.Failed, State: task.StateRetryPending, StartedAt: &start, EndedAt: start.Add(time.Minute)},
	}}
	got := History(i)
	require.Equal(t, []Attempt{{i.History[0], 0, false}, {i.History[1], time.Minute, true}}, got)
	require.Empty(t, History(&Task{}))
}

// The agent that an attempt ran on is named before the one that settled it.
func TestRanOn(t *testing.T) {
	for want, a := range map[string]store.AttemptInfo{
		"web-1":                              {Session: 7, Agent: "web-1"},
		"session 7":                          {Session: 7},
		"web-1, reaped by web-2":             {Session: 7, Agent: "web-1", ReapedSession: 9, ReapedBy: "web-2"},
		"session 7, reaped by session 9":     {Session: 7, ReapedSession: 9},
		`a\x1b[2J, reaped by an-agent-with…`: {Session: 7, Agent: "a\x1b[2J", ReapedSession: 9, ReapedBy: "an-agent-with-a-long-name"},
	} {
		require.Equal(t, want, (&Attempt{AttemptInfo: a}).RanOn(14))
	}
}

// A deferral past the limit is not said to be free.
func TestSummaryOfDeferralsThatCount(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	i := &Task{
		State: task.StateRetryPending, Attempt: 1, CreatedAt: at, RunAt: at,
		History: []store.AttemptInfo{{Phase: task.Run, Attempt: 1, Outcome: task.Deferred, Error: "later", State: task.StateRetryPending}},
	}
	require.Equal(t, "attempt 1 deferred (later), waiting", Summary(i))
	i.State, i.Attempt, i.History[0].State = task.StatePending, 0, task.StatePending
	require.Equal(t, "attempt 1 deferred (does not count: later), waiting", Summary(i))
}

// Which attempts count is what task.Decide has decided, however the task goes on.
func TestHistoryCountsAsDecided(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &task.Policy{Timeout: time.Minute, Retry: someRetry(t), Rollback: &task.RollbackPolicy{Timeout: time.Minute, Retry: someRetry(t)}}
		row := &task.Task{State: task.StatePending}
		info := &Task{}
		counted := map[int]bool{} // by the place in the history, where another attempt of the phase follows
		check := func(s task.State, attempt int) {
			info.State, info.Attempt = s, attempt
			for n, a := range History(info) {
				if want, known := counted[n]; known {
					require.Equal(t, want, a.Counts, "attempt %d of %d, of a task that is %s", n, len(info.History), s)
				}
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "attempts") {
			row.State = row.State.Claimed()
			row.Attempt++
			check(row.State, row.Attempt)
			o := task.Outcome{Verdict: rapid.SampledFrom(task.Verdicts()).Draw(t, "verdict")}
			next := task.Decide(row, p, o, 0, 0)
			e := &store.Settlement{Next: next, Phase: row.Phase(), Attempt: row.Attempt, Outcome: o}
			if e.InHistory() {
				if next.State.Waiting() && next.State.Phase() == row.Phase() {
					counted[len(info.History)] = next.Counts(row)
				}
				info.History = append(info.History, store.AttemptInfo{
					Phase: row.Phase(), Attempt: row.Attempt, Outcome: o.Verdict, State: next.State,
				})
			}
			row.State, row.Attempt, row.Deferrals, row.EverStarted = next.State, next.Attempt, next.Deferrals, next.EverStarted
			check(row.State, row.Attempt)
			if row.State.Finished() {
				return
			}
			if row.State.Phase() == task.Run {
				check(task.StateCancelled, row.Attempt) // while it waits
			}
		}
	})
}

func someRetry(t *rapid.T) task.Retry {
	return task.Retry{
		Limit: rapid.IntRange(0, 4).Draw(t, "limit"), MaxDeferrals: rapid.IntRange(0, 3).Draw(t, "max_deferrals"),
		Backoff: task.Constant, Min: time.Second, Max: time.Minute, On: task.DefaultOn(),
	}
}
