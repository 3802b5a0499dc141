package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func cancelChecks() []Check {
	return []Check{
		{"before it started", cancelFresh},
		{"while it waited", cancelWaiting},
		{"while it waited, and it can be rolled back", cancelRolledBack},
		{"while it runs", cancelRunning},
		{"while it is reaped", cancelReaped},
		{"while it is rolled back", cancelRollingBack},
		{"when it has ended", cancelFinished},
		{"what is not there", cancelNothing},
		{"a decision that did not know of it", cancelNotSeen},
		{"a decision that knew of it", cancelKnown},
		{"the request ends with the attempt", cancelForgotten},
		{"a request wakes listeners", cancelWakes},
		{"against claims", cancelRace},
		{"a crash loses and doubles nothing", cancelCrash},
	}
}

// cancellations returns the ways to cancel. The one that returns no answer derives it from the state.
func (r *liveRig) cancellations() map[string]func(id task.ID, by string) store.Became {
	return map[string]func(task.ID, string) store.Became{
		"Go": func(id task.ID, by string) store.Became { r.t.Helper(); return r.cancel(id, by) },
		"SQL": func(id task.ID, by string) store.Became {
			r.t.Helper()
			c, err := r.cancelSQL(id, by)
			require.NoError(r.t, err)
			if c != "" {
				return c
			}
			info := r.get(id)
			if info.State == task.StateRunning && info.CancelRequested != nil {
				return store.Cancelling
			}
			return store.Became(info.State)
		},
	}
}

// calledOff asserts that a task was archived without running again.
func (r *liveRig) calledOff(before *store.TaskInfo, reason, by string) {
	r.t.Helper()
	got := r.get(before.ID)
	require.Equal(r.t, task.StateCancelled, got.State)
	require.Equal(r.t, before.Fence+1, got.Fence)
	require.Equal(r.t, task.Cancelled, got.Outcome)
	require.Equal(r.t, reason+", by "+by, got.Error)
	require.Equal(r.t, by, got.CancelRequestedBy)
	require.NotNil(r.t, got.CancelRequested)
	near(r.t, r.now(), *got.CancelRequested)
	require.NotNil(r.t, got.FinishedAt)
	near(r.t, r.now(), *got.FinishedAt)
	require.Equal(r.t, before.Attempt, got.Attempt)
	require.Equal(r.t, before.Deferrals, got.Deferrals)
	require.Equal(r.t, before.EverStarted, got.EverStarted)
	require.Equal(r.t, before.Session, got.Session)
	require.Equal(r.t, before.Result, got.Result)
	require.Equal(r.t, before.History, got.History, "nothing was held")
	require.Equal(r.t, before.Checkpoint, got.Checkpoint)
	require.Equal(r.t, before.Message, got.Message)
	sameDeclared(r.t, before, got)
}

func cancelFresh(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for way, cancel := range r.cancellations() {
		q := full(r.now())
		q.Key = way
		due, far := r.Insert(t, q)[0], r.insertFar()
		for _, id := range []task.ID{due, far} {
			before := r.get(id)
			require.Equal(t, store.Became("cancelled"), cancel(id, "alice"), way)
			r.calledOff(before, "cancelled before it started", "alice")
			r.unchanged(id, func() { require.Equal(t, store.Became("cancelled"), cancel(id, "bob"), way) })
		}
		require.Empty(t, r.claimIn("sg", want(kind, 10)), way)
		require.Len(t, r.list(store.TaskFilter{Key: way}), 1, "it is in the archive and nowhere else")
		again := r.enqueue(store.EnqueueRequest{Type: kind, Key: way}, true)
		require.Equal(t, []task.ID{again}, ids(r.claim(want(kind, 10))), "its key is free")
	}
	id := r.insertFar()
	require.Equal(t, store.Became("cancelled"), r.cancel(id, ""))
	require.Equal(t, "cancelled before it started", r.get(id).Error)
	require.Empty(t, r.get(id).CancelRequestedBy)
}

func cancelWaiting(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for way, cancel := range r.cancellations() {
		row := r.heldUnder(moving())
		end := retry(row, 0)
		end.Next.Deferrals, end.Outcome.Result, end.Report = 2, raw(`{"page":4}`), reported(`0.4`, "page 4", `4`)
		r.settled(end)
		before := r.get(row.ID)
		require.Equal(t, store.Became("cancelled"), cancel(row.ID, "alice"), way)
		r.calledOff(before, "cancelled while it waited", "alice")
		r.unchanged(row.ID, func() {
			require.Equal(t, store.Became("cancelled"), cancel(row.ID, "bob"), way)
			require.Equal(t, same(store.Ended, 1), r.settle(end), "the settlement before is found, all the same")
		})
		r.nothingDue()

		// It was claimed and released: never started, so there is nothing to roll back.
		row = r.heldUnder(beating())
		r.settled(release(row))
		before = r.get(row.ID)
		require.Equal(t, store.Became("cancelled"), cancel(row.ID, "alice"), way)
		r.calledOff(before, "cancelled before it started", "alice")
	}
}

func cancelRolledBack(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for way, cancel := range r.cancellations() {
		row := r.heldUnder(beating())
		end := retry(row, time.Hour)
		end.Next.Deferrals = 2
		r.settled(end)
		before := r.get(row.ID)
		require.Equal(t, store.Became("rollback_pending"), cancel(row.ID, "alice"), way)
		got := r.get(row.ID)
		require.Equal(t, task.StateRollbackPending, got.State, way)
		require.Equal(t, before.Fence+1, got.Fence, way)
		require.Zero(t, got.Attempt, way)
		require.Zero(t, got.Deferrals, way)
		require.True(t, got.EverStarted, way)
		require.Equal(t, task.Cancelled, got.Outcome, way)
		require.Equal(t, "cancelled while it waited, by alice", got.Error, way)
		require.Nil(t, got.CancelRequested, way)
		require.Nil(t, got.FinishedAt, way)
		near(t, r.now(), got.RunAt)
		require.Equal(t, before.History, got.History, way)
		r.unchanged(row.ID, func() {
			require.Equal(t, store.Became("rollback_pending"), cancel(row.ID, "bob"), way)
		})
		require.Empty(t, r.claim(under(beating(), 1)), way)
		w := under(beating(), 1)
		w.Phase = task.Rollback
		back := r.claim(w)
		require.Len(t, back, 1, way)
		require.Equal(t, 1, back[0].Attempt, way)
		require.Equal(t, &task.Previous{Outcome: task.Cancelled, Error: got.Error}, back[0].Previous, way)
		done := finish(back[0])
		done.Next.State = task.StateRolledBack
		r.settled(done)
	}
}

func cancelRunning(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	for way, cancel := range r.cancellations() {
		row := r.heldUnder(beating())
		require.False(t, r.held0().CancelRequested, way)
		before := r.get(row.ID)
		require.Equal(t, store.Cancelling, cancel(row.ID, "alice"), way)
		got := r.get(row.ID)
		require.NotNil(t, got.CancelRequested, way)
		near(t, r.now(), *got.CancelRequested)
		require.Equal(t, "alice", got.CancelRequestedBy, way)
		before.CancelRequested, before.CancelRequestedBy = got.CancelRequested, got.CancelRequestedBy
		require.Equal(t, before, got, "and nothing else")
		r.unchanged(row.ID, func() { require.Equal(t, store.Cancelling, cancel(row.ID, "bob"), way) })
		notified := r.held0()
		require.True(t, notified.CancelRequested, way)
		require.Equal(t, "alice", notified.CancelReason, way)
		require.Empty(t, o.present().Held, way)
		require.Equal(t, store.Applied, r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Window: time.Hour}), way)
		require.NoError(t, r.holdSQL(row.ID, row.Fence), "who is asked to stop still holds its row")
		r.settled(finish(row))
		got = r.get(row.ID)
		require.Equal(t, task.StateSucceeded, got.State, "an attempt that succeeds has succeeded")
		require.NotNil(t, got.CancelRequested, way)
		require.Equal(t, "alice", got.CancelRequestedBy, way)
	}
}

func cancelRollingBack(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for way, cancel := range r.cancellations() {
		row := r.rollingBack(beating())
		r.unchanged(row.ID, func() {
			require.Equal(t, store.Became("rollback_running"), cancel(row.ID, "alice"), way)
			require.False(t, r.held0().CancelRequested, way)
			require.False(t, r.ping(row, store.Ping{}).Cancel, way)
		})
		again := retry(row, 0)
		again.Next.State = task.StateRollbackPending
		r.settled(again)
		r.unchanged(row.ID, func() {
			require.Equal(t, store.Became("rollback_pending"), cancel(row.ID, "alice"), way)
		})
		w := under(beating(), 1)
		w.Phase = task.Rollback
		done := finish(r.claim(w)[0])
		done.Next.State = task.StateRolledBack
		r.settled(done)
	}
}

func cancelFinished(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for way, cancel := range r.cancellations() {
		for _, state := range plainStates() {
			if !state.Finished() {
				continue
			}
			row := r.heldUnder(beating())
			end := finish(row)
			end.Next.State = state
			r.settled(end)
			r.unchanged(row.ID, func() { require.Equal(t, store.Became(state), cancel(row.ID, "alice"), way) })
		}
	}
}

func cancelNothing(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for _, id := range []task.ID{999_999_999, 0, -1} {
		_, err := r.Cancel(r.ctx, id, "alice")
		require.ErrorIs(t, err, store.ErrNoTask)
		_, err = r.cancelSQL(id, "alice")
		require.ErrorContains(t, err, "there is no task")
	}
}

func cancelRace(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	all := r.insert(120)
	agents := []*rig{r.rig, r.second().rig, r.second().rig, r.second().rig}
	claimed := map[task.ID]bool{}
	answers := map[task.ID]store.Became{}
	var mu sync.Mutex
	together(agents, func(ctx context.Context, o *rig) error {
		for i, id := range all {
			if o != agents[0] && i%3 == 0 {
				o.claims++
				rows, err := o.Claim(ctx, store.Claim{Session: o.session, Number: o.claims, Wants: []store.Want{under(beating(), 1)}})
				if err != nil {
					return err
				}
				mu.Lock()
				for _, row := range rows {
					claimed[row.ID] = true
				}
				mu.Unlock()
				continue
			}
			if o != agents[0] {
				continue
			}
			got, err := o.Cancel(ctx, id, "alice")
			if err != nil {
				return err
			}
			mu.Lock()
			answers[id] = got
			mu.Unlock()
		}
		return nil
	})
	for _, id := range all {
		info := r.get(id)
		if claimed[id] {
			require.Equal(t, store.Cancelling, answers[id], "it was claimed before")
			require.Equal(t, task.StateRunning, info.State)
			require.NotNil(t, info.CancelRequested)
			continue
		}
		require.Equal(t, store.Became("cancelled"), answers[id])
		require.Equal(t, task.StateCancelled, info.State)
		require.EqualValues(t, 1, info.Fence, "no session had it")
	}
}

func cancelCrash(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	before, after, rows := 0, 0, 0
	for _, point := range r.Failpoints() {
		id := r.insertFar()
		rows++
		hit := r.crash(point)
		_, err := r.Cancel(r.ctx, id, "alice")
		r.Fail(nil)
		require.Len(t, r.list(store.TaskFilter{Limit: 1000}), rows, point)
		if !hit() {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, errCrash, point)
		switch info := r.get(id); info.State {
		case task.StatePending:
			before++
			require.Zero(t, info.Fence, point)
		default:
			after++
			require.Equal(t, task.StateCancelled, info.State, point)
		}
		require.Equal(t, store.Became("cancelled"), r.cancel(id, "alice"), point)
		require.EqualValues(t, 1, r.get(id).Fence, point)
	}
	require.Positive(t, before, "a crash before the commit")
	require.Positive(t, after, "a crash after it")
}
