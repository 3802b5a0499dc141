package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// script is a store whose tasks live by the clock: what Get says depends on how long ago it began.
type script struct {
	Store
	began time.Time
	looks int
	at    func(id task.ID, since time.Duration) (*store.TaskInfo, error)
}

func (s *script) Get(_ context.Context, id task.ID) (*store.TaskInfo, error) {
	s.looks++
	return s.at(id, time.Since(s.began))
}

func (s *script) Redactions(context.Context) (map[string][]string, error) {
	return map[string][]string{}, nil
}

// life is a task that is claimed after claimed and done after done.
func life(id task.ID, since, claimed, done time.Duration) *store.TaskInfo {
	switch {
	case since < claimed:
		return &store.TaskInfo{ID: id, State: task.StatePending}
	case since < done:
		return &store.TaskInfo{ID: id, State: task.StateRunning, Fence: 1}
	}
	return &store.TaskInfo{ID: id, State: task.StateSucceeded, Fence: 2}
}

func TestWaitReportsEachChangeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{began: time.Now(), at: func(id task.ID, since time.Duration) (*store.TaskInfo, error) {
			return life(id, since, time.Duration(id)*time.Second, time.Duration(id)*10*time.Second), nil
		}}
		var reported []task.State
		infos, err := Wait(t.Context(), s, []task.ID{2, 1}, Watch{Changed: func(i Task) { reported = append(reported, i.State) }})
		require.NoError(t, err)
		require.Equal(t, task.ID(2), infos[0].ID)
		require.Equal(t, task.ID(1), infos[1].ID)
		require.Equal(t, []task.State{"pending", "pending", "running", "running", "succeeded", "succeeded"}, reported)
		require.Less(t, time.Since(s.began), 20*time.Second+waitLongest+time.Millisecond)
		require.Less(t, s.looks, 200, "the store is spared")
	})
}

func TestWaitShowsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{began: time.Now(), at: func(id task.ID, since time.Duration) (*store.TaskInfo, error) {
			i := life(id, since, time.Second, 10*time.Second)
			if i.State == task.StateRunning && since > 2*time.Second {
				i.Progress = json.RawMessage(fmt.Sprintf("0.%d", min(int(since.Seconds()), 4)))
			}
			return i, nil
		}}
		var changes, progress int
		_, err := Wait(t.Context(), s, []task.ID{1}, Watch{
			Changed: func(Task) { changes++ }, Progressed: func(Task) { progress++ },
		})
		require.NoError(t, err)
		require.Equal(t, 3, changes)
		require.Equal(t, 3, progress)
	})
}

func TestWaitLooksSoonAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{began: time.Now(), at: func(id task.ID, since time.Duration) (*store.TaskInfo, error) {
			return life(id, since, 0, 4*time.Millisecond), nil
		}}
		_, err := Wait(t.Context(), s, []task.ID{1}, Watch{})
		require.NoError(t, err)
		require.Equal(t, waitFirst, time.Since(s.began))
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{began: time.Now(), at: func(id task.ID, since time.Duration) (*store.TaskInfo, error) {
			return life(id, since, time.Hour, time.Hour), nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		infos, err := Wait(ctx, s, []task.ID{1}, Watch{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, task.StatePending, infos[0].State, "what was seen last comes with the error")
		require.Equal(t, time.Minute, time.Since(s.began))
	})
}

func TestWaitForNoTask(t *testing.T) {
	s := &script{at: func(task.ID, time.Duration) (*store.TaskInfo, error) { return nil, store.ErrNoTask }}
	_, err := Wait(t.Context(), s, []task.ID{7}, Watch{})
	require.ErrorIs(t, err, store.ErrNoTask)
	require.ErrorContains(t, err, "task 7")
	_, named := ReadTask(t.Context(), s, 7)
	require.EqualError(t, named, err.Error())
	require.Equal(t, 2, s.looks)
	infos, err := Wait(t.Context(), s, nil, Watch{})
	require.NoError(t, err)
	require.Empty(t, infos)
}

func TestWaitOutlastsAFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{began: time.Now(), at: func(id task.ID, since time.Duration) (*store.TaskInfo, error) {
			if since > time.Second && since < 25*time.Second {
				return nil, errors.New("the database starts up")
			}
			return life(id, since, time.Second, 26*time.Second), nil
		}}
		trouble := 0
		_, err := Wait(t.Context(), s, []task.ID{1, 2}, Watch{Trouble: func(error) { trouble++ }})
		require.NoError(t, err)
		require.Equal(t, 1, trouble, "said once")
	})
}

func TestWaitGivesUpOnADeadStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := errors.New("connection refused")
		s := &script{began: time.Now(), at: func(task.ID, time.Duration) (*store.TaskInfo, error) { return nil, dead }}
		infos, err := Wait(t.Context(), s, []task.ID{1}, Watch{})
		require.ErrorIs(t, err, dead)
		require.Nil(t, infos[0])
		require.InDelta(t, followPatience, time.Since(s.began), float64(time.Second))
	})
}

func TestSummary(t *testing.T) {
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	claimed := start.Add(1200 * time.Microsecond)
	failed := store.AttemptInfo{
		Phase: task.Run, Attempt: 1, Outcome: task.Failed, Error: "exit status 1", State: task.StateRetryPending,
	}
	for want, i := range map[string]Task{
		"waiting":                               {State: task.StatePending},
		"waiting, due 2026-11-20T09:00:00.000Z": {State: task.StatePending, RunAt: start.Add(time.Hour)},
		"claimed 1.2 ms, running":               {State: task.StateRunning, Attempt: 1, ClaimedAt: &claimed},
		"claimed 1.2 ms, running 40%": {
			State: task.StateRunning, Attempt: 1, ClaimedAt: &claimed, Progress: json.RawMessage(`0.4`),
		},
		"claimed 1.2 ms, running 25% (page 1 of 4)": {
			State: task.StateRunning, Attempt: 1, ClaimedAt: &claimed, Progress: json.RawMessage(`{"done":1,"total":4}`), Message: "page 1 of 4",
		},
		"claimed 1.2 ms, running at page 40": {
			State: task.StateRunning, Attempt: 1, ClaimedAt: &claimed, Progress: json.RawMessage(`"page 40"`),
		},
		"claimed 1.2 ms, running, succeeded": {State: task.StateSucceeded, Attempt: 1, ClaimedAt: &claimed, EverStarted: true},
		"claimed 1.2 ms, running, succeeded (result not kept)": {
			State: task.StateSucceeded, Attempt: 1, ClaimedAt: &claimed, EverStarted: true, Error: "result not kept",
		},
		"claimed 1.2 ms, running, failed (exit status 65 \\x1b)": {
			State: task.StateFailed, Attempt: 1, ClaimedAt: &claimed, EverStarted: true, Error: "exit status 65\n \x1b",
		},
		"cancelled": {State: task.StateCancelled},
		"attempt 1 failed (exit status 1), waiting, due 2026-11-20T08:00:01.000Z": {
			State: task.StateRetryPending, RunAt: start.Add(time.Second), History: []store.AttemptInfo{failed}, Attempt: 1,
		},
		"attempt 1 failed (exit status 1), attempt 2 running": {
			State: task.StateRunning, ClaimedAt: &claimed, History: []store.AttemptInfo{failed}, Attempt: 2,
		},
		"attempt 1 failed (exit status 1), attempt 2 running, succeeded": {
			State: task.StateSucceeded, ClaimedAt: &claimed, Attempt: 2,
			History: []store.AttemptInfo{failed, {
				Phase: task.Run, Attempt: 2, Outcome: task.Succeeded, State: task.StateSucceeded, EndedAt: claimed.Add(time.Second),
			}},
		},
		"attempt 1 failed (exit status 1), attempt 1 running, succeeded": { // after an operator's retry
			State: task.StateSucceeded, ClaimedAt: &claimed, Attempt: 1, Round: 1, History: []store.AttemptInfo{failed},
		},
		"attempt 1 failed, failed (exit status 1)": { // after two: the last attempt is not in the history
			State: task.StateFailed, ClaimedAt: &claimed, Attempt: 1, Round: 1, Error: "exit status 1",
			History: []store.AttemptInfo{{Phase: task.Run, Attempt: 1, Outcome: task.Failed, State: task.StateFailed, EndedAt: start}},
		},
		"attempt 1 deferred (does not count), waiting": {
			State: task.StatePending, RunAt: start, History: []store.AttemptInfo{{Phase: task.Run, Attempt: 1, Outcome: task.Deferred}},
		},
		"attempt 1 drained (does not count: stopped), waiting": {
			State: task.StatePending, RunAt: start,
			History: []store.AttemptInfo{{Phase: task.Run, Attempt: 1, Outcome: task.Drained, Error: "stopped"}},
		},
		"attempt 1 failed (exit status 1), rolling back": {
			State: task.StateRollbackRunning, ClaimedAt: &claimed, History: []store.AttemptInfo{failed}, Attempt: 1,
		},
	} {
		i.CreatedAt = start
		if i.RunAt.IsZero() {
			i.RunAt = start
		}
		require.Equal(t, want, Summary(&i))
	}
}

func TestFillTrace(t *testing.T) {
	const own, derived = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "00-of its own"
	derive := func(id task.ID) (string, error) {
		if id == 2 {
			return "", errors.New("no right")
		}
		return derived, nil
	}
	for _, c := range []struct {
		id         task.ID
		have, want string
	}{{1, own, own}, {1, "", derived}, {1, "garbage", derived}, {2, own, own}, {2, "", ""}, {2, "garbage", "garbage"}} {
		i := &Task{ID: c.id, Traceparent: c.have}
		require.Equal(t, c.id == 2 && c.have != own, FillTrace(i, derive) != nil)
		require.Equal(t, c.want, i.Traceparent)
	}
}
