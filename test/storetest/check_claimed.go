package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func claimedChecks() []Check {
	return []Check{
		{"what a claim returns", claimReturns},
		{"what a later claim returns", claimAgain},
		{"what a claim writes", claimWrites},
		{"the deadline is stamped once", claimDeadline},
		{"a lost reply is read back", claimReadBack},
		{"a lost reply is read back as far as it is held", claimReadBackHeld},
		{"claims of two sessions are distinguished", claimReadBackOwn},
		{"when the next row is due", nextDue},
		{"when the next row is due, by want", nextDueWants},
	}
}

// full is a request with every column set.
func full(now time.Time) store.EnqueueRequest {
	return store.EnqueueRequest{
		Type: kind, Payload: json.RawMessage(`{"invoice":7}`), RunAt: now.Add(-time.Minute), Priority: 3,
		Key: "invoice-7", Region: "sg", MaxAttempts: 4, Labels: map[string]string{"tenant": "acme"},
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", CreatedBy: "suite",
	}
}

func claimReturns(t testing.TB, h Harness) {
	r := newRig(t, h)
	id := r.Insert(t, full(r.now()))[0]
	info := r.get(id)
	w := want(kind, 1)
	w.Deadline = time.Hour
	got := r.claimIn("sg", w)
	require.Len(t, got, 1)
	now := r.now()
	require.JSONEq(t, `{"invoice":7}`, string(got[0].Payload))
	require.JSONEq(t, `{"tenant":"acme"}`, string(got[0].Labels))
	near(t, now, got[0].ClaimedAt)
	wanted := task.Task{
		ID: id, Type: kind, State: task.StateRunning, Fence: 1, Attempt: 1, MaxAttempts: 4,
		Payload: got[0].Payload, Labels: got[0].Labels, Key: "invoice-7", Region: "sg", Priority: 3,
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", CreatedBy: "suite",
		Policy: 7, CreatedAt: info.CreatedAt, RunAt: info.RunAt, ClaimedAt: got[0].ClaimedAt,
		LeaseEnd: got[0].ClaimedAt.Add(window), Deadline: info.RunAt.Add(time.Hour),
	}
	require.Empty(t, cmp.Diff(wanted, got[0], sameTask()))

	plain := r.held()
	require.JSONEq(t, `{}`, string(plain.Payload), "the default")
	require.Nil(t, plain.Labels)
	require.Nil(t, plain.Result)
	require.Nil(t, plain.Checkpoint)
	require.Nil(t, plain.Previous)
	require.True(t, plain.Deadline.IsZero())
	near(t, now, plain.RunAt)
	near(t, now, plain.CreatedAt)
}

// sameTask compares tasks to the millisecond.
func sameTask() cmp.Option {
	return cmp.Options{
		cmpopts.EquateApproxTime(time.Millisecond),
		cmp.Transformer("json", func(raw json.RawMessage) any {
			var v any
			if raw != nil && json.Unmarshal(raw, &v) != nil {
				return "not JSON: " + string(raw)
			}
			return v
		}),
	}
}

// byID maps tasks by their ids.
func byID(tasks []task.Task) map[task.ID]task.Task {
	out := map[task.ID]task.Task{}
	for _, t := range tasks {
		out[t.ID] = t
	}
	return out
}

func claimAgain(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	failed := retry(row, 0)
	failed.Next.Deferrals = 3
	failed.Outcome.Result = json.RawMessage(`{"page":4}`)
	r.settled(failed)
	got := r.claim(want(kind, 1))
	require.Len(t, got, 1)
	require.Equal(t, 2, got[0].Attempt)
	require.Equal(t, 3, got[0].Deferrals)
	require.True(t, got[0].EverStarted)
	require.Equal(t, row.Fence+2, got[0].Fence, "one for the release, one for the claim")
	require.Equal(t, &task.Previous{Outcome: task.Failed, Error: "it broke"}, got[0].Previous)
	require.JSONEq(t, `{"page":4}`, string(got[0].Result))
	near(t, r.now().Add(window), got[0].LeaseEnd)
}

func claimWrites(t testing.TB, h Harness) {
	r := newRig(t, h)
	id := r.insert(1)[0]
	before := r.get(id)
	require.Equal(t, task.StatePending, before.State)
	require.Zero(t, before.Attempt)
	require.Zero(t, before.Fence)
	require.Zero(t, before.Session)
	require.Nil(t, before.ClaimedAt)
	require.Nil(t, before.LeaseEnd)
	r.claim(want(kind, 1))
	got := r.get(id)
	require.Equal(t, task.StateRunning, got.State)
	require.Equal(t, 1, got.Attempt)
	require.EqualValues(t, 1, got.Fence)
	require.Equal(t, r.session, got.Session)
	require.Equal(t, "first", got.Agent)
	require.NotNil(t, got.ClaimedAt)
	near(t, r.now(), *got.ClaimedAt)
	require.NotNil(t, got.LeaseEnd)
	near(t, got.ClaimedAt.Add(window), *got.LeaseEnd)
	require.Nil(t, got.Deadline)
	require.Nil(t, got.FinishedAt)
}

func claimDeadline(t testing.TB, h Harness) {
	r := newRig(t, h)
	w := want(kind, 1)
	w.Deadline = time.Hour
	id := r.insert(1)[0]
	r.Advance(t, 10*time.Minute)
	due := r.get(id).RunAt
	row := r.claim(w)[0]
	require.WithinDuration(t, due.Add(time.Hour), row.Deadline, time.Millisecond, "counted from when it was due")
	r.settled(retry(row, time.Minute))
	r.Advance(t, 2*time.Minute)

	w.Deadline = 5 * time.Hour
	info := r.get(id)
	require.NotNil(t, info.Deadline)
	again := r.claim(w)[0]
	require.WithinDuration(t, *info.Deadline, again.Deadline, time.Millisecond, "and never anew")
	r.settled(retry(again, 0))
	again = r.claim(want(kind, 1))[0]
	require.WithinDuration(t, *info.Deadline, again.Deadline, time.Millisecond, "nor taken away")

	none := r.held()
	require.True(t, none.Deadline.IsZero())
	r.settled(retry(none, 0))
	require.False(t, r.claim(w)[0].Deadline.IsZero(), "a row without one gets it at its next claim")
}

func claimReadBack(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(3)
	r.Insert(t, store.EnqueueRequest{Type: "b"})
	wants := []store.Want{want("b", 1), want(kind, 2)}
	first := r.claim(wants...)
	second := r.claim(wants...)
	require.Len(t, first, 3)
	require.Len(t, second, 1)
	for number, taken := range map[int64][]task.Task{1: first, 2: second, 3: nil} {
		got, err := r.Claimed(r.ctx, r.session, number)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(byID(taken), byID(got), sameTask()))
	}
}

func claimReadBackHeld(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(4)
	rows := r.claim(want(kind, 4))
	r.settled(finish(rows[0]), retry(rows[1], 0))
	got, err := r.Claimed(r.ctx, r.session, 1)
	require.NoError(t, err)
	require.ElementsMatch(t, ids(rows[2:]), ids(got), "what is settled is not held")

	o := r.other("second")
	require.Equal(t, []task.ID{rows[1].ID}, ids(o.claim(want(kind, 1))), "by a claim of the same number")
	got, err = r.Claimed(r.ctx, r.session, 1)
	require.NoError(t, err)
	require.ElementsMatch(t, ids(rows[2:]), ids(got), "what another holds is not")

	require.NoError(t, r.Leave(r.ctx, r.session))
	require.Len(t, o.sweep(10), 2)
	got, err = r.Claimed(r.ctx, r.session, 1)
	require.NoError(t, err)
	require.Empty(t, got, "what is reaped is not")
	got, err = o.Claimed(o.ctx, o.session, 1)
	require.NoError(t, err)
	require.Equal(t, []task.ID{rows[1].ID}, ids(got), "and is not the sweeper's claim")
}

func claimReadBackOwn(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	r.insert(2)
	mine, theirs := r.claim(want(kind, 1)), o.claim(want(kind, 1))
	got, err := r.Claimed(r.ctx, r.session, 1)
	require.NoError(t, err)
	require.Equal(t, ids(mine), ids(got))
	got, err = r.Claimed(r.ctx, o.session, 1)
	require.NoError(t, err)
	require.Equal(t, ids(theirs), ids(got))
	require.NotEqual(t, r.session, o.session)
}

func nextDue(t testing.TB, h Harness) {
	r := newRig(t, h)
	ask := store.Claim{Session: r.session, Region: "sg", Wants: []store.Want{want(kind, 1), want("b", 1)}}
	_, ok, err := r.NextDue(r.ctx, ask)
	require.NoError(t, err)
	require.False(t, ok, "none waits")

	r.Insert(t, store.EnqueueRequest{Type: kind, In: 30 * time.Minute, Region: "sg"}, store.EnqueueRequest{Type: "b", In: time.Hour})
	in := func() time.Duration {
		t.Helper()
		in, ok, err := r.NextDue(r.ctx, ask)
		require.NoError(t, err)
		require.True(t, ok)
		return in
	}
	require.InDelta(t, 30*time.Minute, in(), float64(slack))
	r.Advance(t, 20*time.Minute)
	require.InDelta(t, 10*time.Minute, in(), float64(slack))
	r.Advance(t, 20*time.Minute)
	require.Zero(t, in(), "due already")
	require.Len(t, r.claimIn("sg", want(kind, 1)), 1)
	require.InDelta(t, 20*time.Minute, in(), float64(slack), "a row that is held does not wait")
}

func nextDueWants(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	rollBack := retry(row, 5*time.Minute)
	rollBack.Next.State = task.StateRollbackPending
	r.settled(rollBack)
	r.Insert(t, store.EnqueueRequest{Type: kind, In: 10 * time.Minute, Region: "eu"},
		store.EnqueueRequest{Type: kind, In: 20 * time.Minute}, store.EnqueueRequest{Type: "b"})
	for _, c := range []struct {
		region string
		phase  task.Phase
		in     time.Duration
	}{
		{"", task.Run, 20 * time.Minute},
		{"sg", task.Run, 20 * time.Minute},
		{"eu", task.Run, 10 * time.Minute},
		{"", task.Rollback, 5 * time.Minute},
	} {
		w := want(kind, 1)
		w.Phase = c.phase
		in, ok, err := r.NextDue(r.ctx, store.Claim{Session: r.session, Region: c.region, Wants: []store.Want{w}})
		require.NoError(t, err)
		require.True(t, ok)
		require.InDelta(t, c.in, in, float64(slack), "region %q, phase %s", c.region, c.phase)
	}
}
