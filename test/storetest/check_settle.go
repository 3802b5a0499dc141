package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func settleChecks() []Check {
	return []Check{
		{"a finished row goes to the archive", settleFinish},
		{"every finished state", settleStates},
		{"a row that goes on is released", settleRelease},
		{"the reason stands in for an error", settleReason},
		{"a result is kept until there is another", settleResult},
		{"the delay counts from the settlement", settleDelay},
		{"not before the lease's end", settleAfterLease},
		{"a row that was never started keeps its place", settleKeepsPlace},
		{"a released attempt does not count", settleReleases},
		{"answers come in the order of the rows", settleOrder},
		{"a lease that has ended and was not reaped is still held", settleLate},
		{"nothing to settle", settleNothing},
	}
}

func settleFinish(t testing.TB, h Harness) {
	r := newRig(t, h)
	id := r.Insert(t, full(r.now()))[0]
	w := want(kind, 1)
	w.Deadline = time.Hour
	row := r.claimIn("sg", w)[0]
	r.Advance(t, 2*time.Minute)
	before := r.get(id)
	done := finish(row)
	done.Next.Deferrals = 2
	done.Outcome.Output = "line 1\nline 2\n"
	r.settled(done)

	got := r.get(id)
	require.NotNil(t, got.FinishedAt)
	near(t, r.now(), *got.FinishedAt)
	require.NotNil(t, got.Deadline)
	require.WithinDuration(t, *before.Deadline, *got.Deadline, time.Millisecond)
	require.Equal(t, task.StateSucceeded, got.State)
	require.Equal(t, row.Fence+1, got.Fence)
	require.Equal(t, r.session, got.Session)
	require.Equal(t, task.Succeeded, got.Outcome)
	require.Empty(t, got.Error)
	require.JSONEq(t, `{"ok":true}`, string(got.Result))
	require.Equal(t, "line 1\nline 2\n", got.Output)
	require.Equal(t, 1, got.Attempt)
	require.Equal(t, 2, got.Deferrals)
	require.True(t, got.EverStarted)
	sameDeclared(t, before, got)

	require.Empty(t, r.claimIn("sg", want(kind, 1)))
	require.Empty(t, r.present().Held)
	listed, err := r.List(r.ctx, store.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, listed, 1, "it is in the archive and nowhere else")
}

// sameDeclared asserts that what was said when the task was enqueued is unchanged.
func sameDeclared(t testing.TB, want, got *store.TaskInfo) {
	t.Helper()
	require.Equal(t, want.Type, got.Type)
	require.Equal(t, want.Priority, got.Priority)
	require.Equal(t, want.Region, got.Region)
	require.Equal(t, want.Key, got.Key)
	require.JSONEq(t, string(want.Payload), string(got.Payload))
	require.Equal(t, string(want.Labels), string(got.Labels))
	require.Equal(t, want.Traceparent, got.Traceparent)
	require.Equal(t, want.CreatedBy, got.CreatedBy)
	require.Equal(t, want.MaxAttempts, got.MaxAttempts)
	require.WithinDuration(t, want.CreatedAt, got.CreatedAt, time.Millisecond)
}

func settleStates(t testing.TB, h Harness) {
	r := newRig(t, h)
	for _, state := range plainStates() {
		if state.Running() {
			continue
		}
		row := r.held()
		end := retry(row, time.Hour)
		end.Next.State = state
		r.settled(end)
		got := r.get(row.ID)
		require.Equal(t, state, got.State)
		require.Equal(t, state.Finished(), got.FinishedAt != nil)
		require.Equal(t, task.Failed, got.Outcome)
		require.Equal(t, "it broke", got.Error)
	}
}

func settleRelease(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	before := r.get(row.ID)
	end := retry(row, 5*time.Minute)
	end.Next.Deferrals, end.Next.Attempt = 4, 7
	r.settled(end)

	got := r.get(row.ID)
	require.Equal(t, task.StateRetryPending, got.State)
	require.Equal(t, row.Fence+1, got.Fence)
	require.Equal(t, r.session, got.Session, "the last holder stays, for repeats")
	require.Equal(t, 7, got.Attempt)
	require.Equal(t, 4, got.Deferrals)
	require.True(t, got.EverStarted)
	require.Nil(t, got.ClaimedAt)
	require.Nil(t, got.LeaseEnd)
	require.Nil(t, got.FinishedAt)
	sameDeclared(t, before, got)
	require.Empty(t, r.present().Held)
	require.Empty(t, r.sweep(10), "a row that waits is not dead")
}

func settleReason(t testing.TB, h Harness) {
	r := newRig(t, h)
	for _, c := range []struct{ err, reason, failed, waiting string }{
		{"it broke", "attempt 3 of 3 failed: it broke", "attempt 3 of 3 failed: it broke", "it broke"},
		{"", "past its deadline", "past its deadline", "past its deadline"},
		{"it broke", "", "it broke", "it broke"},
		{"", "", "", ""},
	} {
		for state, want := range map[task.State]string{task.StateFailed: c.failed, task.StateRetryPending: c.waiting} {
			row := r.held()
			end := retry(row, time.Hour)
			end.Next.State, end.Next.Reason, end.Outcome.Error = state, c.reason, c.err
			r.settled(end)
			require.Equal(t, want, r.get(row.ID).Error, "%s, %q", state, c.reason)
		}
	}
	row := r.held()
	r.settled(retry(row, 0))
	r.settled(finish(r.claim(want(kind, 1))[0]))
	require.Empty(t, r.get(row.ID).Error, "an error does not outlive its attempt")
}

func settleResult(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	end := retry(row, 0)
	end.Outcome.Result = json.RawMessage(`{"page":1}`)
	r.settled(end)
	require.JSONEq(t, `{"page":1}`, string(r.get(row.ID).Result))

	row = r.claim(want(kind, 1))[0]
	r.settled(retry(row, 0))
	require.JSONEq(t, `{"page":1}`, string(r.get(row.ID).Result))

	row = r.claim(want(kind, 1))[0]
	end = finish(row)
	end.Outcome.Result = nil
	r.settled(end)
	require.JSONEq(t, `{"page":1}`, string(r.get(row.ID).Result))

	row = r.held()
	end = finish(row)
	end.Outcome.Result = json.RawMessage(`"just a text"`)
	r.settled(end)
	require.JSONEq(t, `"just a text"`, string(r.get(row.ID).Result))
}

func settleDelay(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.Advance(t, 4*time.Minute)
	r.settled(retry(row, 20*time.Minute))
	near(t, r.now().Add(20*time.Minute), r.get(row.ID).RunAt)
	r.Advance(t, 19*time.Minute)
	require.Empty(t, r.claim(want(kind, 1)))
	r.Advance(t, 2*time.Minute)
	require.Len(t, r.claim(want(kind, 1)), 1)
}

func settleAfterLease(t testing.TB, h Harness) {
	r := newRig(t, h)
	for i, c := range []struct {
		delay, due time.Duration
		after      bool
	}{
		{0, window, true},
		{window / 2, window, true},
		{2 * window, 2 * window, true},
		{0, 0, false},
		{window / 2, window / 2, false},
	} {
		row := r.heldOf(fmt.Sprint("type ", i))
		end := retry(row, c.delay)
		end.Next.AfterLease = c.after
		r.settled(end)
		due := r.get(row.ID).RunAt
		near(t, row.LeaseEnd.Add(c.due-window), due)
		if c.after {
			require.False(t, due.Before(row.LeaseEnd.Add(-time.Millisecond)), "delay %s", c.delay)
		}
	}

	row := r.held()
	r.renew(store.Renewal{ID: row.ID, Fence: row.Fence, Window: 3 * window})
	end := retry(row, 0)
	end.Next.AfterLease = true
	r.settled(end)
	near(t, row.LeaseEnd.Add(2*window), r.get(row.ID).RunAt)

	row = r.claimLate()
	end = retry(row, time.Minute)
	end.Next.AfterLease = true
	r.settled(end)
	near(t, r.now().Add(time.Minute), r.get(row.ID).RunAt)
}

// claimLate holds a row whose lease has ended, while its session is there.
func (r *rig) claimLate() task.Task {
	r.t.Helper()
	row := r.held()
	r.Advance(r.t, window+time.Minute)
	r.present()
	return row
}

func settleKeepsPlace(t testing.TB, h Harness) {
	r := newRig(t, h)
	rows := r.insert(3)
	taken := r.claim(want(kind, 2))
	r.Advance(t, time.Minute)
	due := r.get(rows[1]).RunAt
	r.settled(release(taken[0]), release(taken[1]))
	require.WithinDuration(t, due, r.get(rows[1]).RunAt, time.Millisecond)
	require.Equal(t, task.StatePending, r.state(rows[0]))
	require.Equal(t, rows, ids(r.claim(want(kind, 3))), "the order is kept")

	row := r.held()
	slow := release(row)
	slow.Next.Delay = 5 * time.Minute
	r.settled(slow)
	near(t, r.now().Add(5*time.Minute), r.get(row.ID).RunAt)

	row = r.held()
	r.Advance(t, time.Minute)
	r.settled(retry(row, 0))
	near(t, r.now(), r.get(row.ID).RunAt)
}

func settleReleases(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	for range 3 {
		require.Equal(t, 1, row.Attempt)
		require.False(t, row.EverStarted)
		require.Equal(t, 1, r.get(row.ID).Attempt, "counted when claimed")
		r.settled(release(row))
		require.Zero(t, r.get(row.ID).Attempt)
		row = r.claim(want(kind, 1))[0]
	}
	r.settled(retry(row, 0))
	row = r.claim(want(kind, 1))[0]
	require.Equal(t, 2, row.Attempt)
	require.True(t, row.EverStarted)
}

func settleOrder(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(6)
	rows := r.claim(want(kind, 6))
	r.settled(finish(rows[1]), retry(rows[4], time.Hour))
	stale := finish(rows[2])
	stale.Fence--
	require.Equal(t,
		[]store.Answer{store.Ended, store.Applied, store.Lost, store.Applied, store.Lost, store.Ended, store.Applied},
		r.settle(retry(rows[4], time.Hour), finish(rows[5]), stale, finish(rows[0]),
			store.Settlement{ID: 999_999_999, Fence: 1, Next: task.Transition{State: task.StateSucceeded}},
			finish(rows[1]), retry(rows[3], time.Hour)))
	for i, state := range []task.State{
		task.StateSucceeded, task.StateSucceeded, task.StateRunning,
		task.StateRetryPending, task.StateRetryPending, task.StateSucceeded,
	} {
		require.Equal(t, state, r.state(rows[i].ID), "row %d", i)
	}
}

func settleLate(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.claimLate()
	r.settled(finish(row))
	require.Equal(t, task.StateSucceeded, r.state(row.ID))
}

func settleNothing(t testing.TB, h Harness) {
	r := newRig(t, h)
	require.Empty(t, r.settle())
	answers, err := r.Renew(r.ctx, r.session, nil)
	require.NoError(t, err)
	require.Empty(t, answers)
}
