package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/history"
)

func TestFollowed(t *testing.T) {
	t.Parallel()
	const second = time.Second
	row := func(id int64) history.Row {
		return history.Row{ID: id, Key: "k", Type: "follow", State: "succeeded", Attempt: 1, Fence: 2, Outcome: "succeeded", EverStarted: true, Archived: 1, MaxAttempts: 3}
	}
	run := func(id int64, from, to time.Duration) []history.Event {
		e := history.Event{Who: "a1.1", Kind: "follow", ID: id, Fence: 1, Attempt: 1}
		start, end := e, e
		start.What, start.At = history.Start, from
		end.What, end.At, end.Note = history.End, to, "succeeded"
		return []history.Event{start, end}
	}
	two := func(change func(h *history.History)) *history.History {
		h := &history.History{
			Kinds:      map[string]history.Kind{"follow": {Name: "follow", Follow: true, Timeout: 9 * second, Stop: 2 * second}},
			Rows:       []history.Row{row(1), row(2)},
			FollowRows: []history.FollowRow{{ID: 1, Key: "k", N: 1}, {ID: 2, Key: "k", N: 3}},
			Followed: []history.Followed{
				{Key: "k", N: 1, ID: 1, Answer: "inserted", Commit: history.Committed, At: second},
				{Key: "k", N: 2, ID: 2, Answer: "follows", Commit: history.Committed, At: 3 * second},
				{Key: "k", N: 3, ID: 2, Answer: "follows", Commit: history.Committed, At: 4 * second},
			},
			Events: append(run(1, 2*second, 5*second), run(2, 6*second, 7*second)...),
		}
		change(h)
		return h
	}
	for name, c := range map[string]struct {
		change func(h *history.History)
		breaks []Name
	}{
		"one after the other": {func(*history.History) {}, nil},
		"what was rolled back is not there": {func(h *history.History) {
			h.Followed = append(h.Followed, history.Followed{Key: "k", N: 4, ID: 9, Commit: history.RolledBack, At: 8 * second})
		}, nil},
		"lost": {func(h *history.History) {
			h.Rows, h.FollowRows, h.Events = h.Rows[:1], h.FollowRows[:1], h.Events[:2]
		}, []Name{FollowedRuns, FollowedRuns}},
		"left behind": {func(h *history.History) {
			h.Rows, h.Events = h.Rows[:1], h.Events[:2]
			h.FollowRows[1].Follower = true
		}, []Name{FollowedRuns, FollowedRuns}},
		"an earlier one won": {func(h *history.History) { h.FollowRows[1].N = 2 }, []Name{FollowedRuns}},
		"kept although the live row ran": {func(h *history.History) {
			h.Followed[2].ID, h.FollowRows[0].N, h.FollowRows[1].N = 1, 3, 4
			h.Events = append(run(2, 500*time.Millisecond, 600*time.Millisecond), h.Events[:2]...)
		}, []Name{FollowedInTurn, FollowedInTurn, FollowedRuns, FollowedRuns}},
		"out of order": {func(h *history.History) { h.FollowRows[0].N = 5 }, []Name{FollowedInTurn}},
		"beside each other": {func(h *history.History) {
			h.Events = append(run(2, 4500*time.Millisecond, 7*second), run(1, 2*second, 6*second)...)
		}, []Name{FollowedInTurn}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := two(c.change)
			var broken []Name
			for _, v := range Check(h) {
				broken = append(broken, v.Invariant)
			}
			require.ElementsMatch(t, c.breaks, broken)
		})
	}
}
