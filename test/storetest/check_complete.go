package storetest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func completeChecks() []Check {
	return []Check{
		{"what it writes", completeWrites},
		{"a repeat finds itself done", completeTwice},
		{"a rollback", completeRollback},
		{"a later attempt leaves its history", completeLater},
		{"a result is kept until there is another", completeResult},
		{"a stale fence completes nothing", completeStale},
		{"a row that is reaped is not completed", completeReaped},
		{"a lease that has ended and was not reaped", completeLate},
		{"then settle", completeThenSettle},
		{"settle, then complete", settleThenComplete},
		{"taken back", completeRolledBack},
		{"with the effect, or not at all", completeWithHold},
		{"a session learns of it", completedNotified},
		{"a session learns of it, though it was rolled back since", completedRolledBack},
		{"one of many", completeRace},
		{"a crash loses and doubles nothing", completeCrash},
	}
}

// completions are the ways to complete an attempt; each reports whether it was the one.
func (r *liveRig) completions() map[string]func(id task.ID, f task.Fence, result string) (done bool) {
	return map[string]func(task.ID, task.Fence, string) bool{
		"Go": func(id task.ID, f task.Fence, result string) bool {
			r.t.Helper()
			switch got := r.complete(id, f, result); got {
			case store.Applied, store.Ended:
				return true
			default:
				require.Equal(r.t, store.Lost, got)
				return false
			}
		},
		"SQL": func(id task.ID, f task.Fence, result string) bool {
			r.t.Helper()
			err := r.completeSQL(id, f, result)
			if err != nil {
				gone(r.t, err)
			}
			return err == nil
		},
	}
}

func completeWrites(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for way, complete := range r.completions() {
		q := full(r.now())
		q.Key = way
		id := r.Insert(t, q)[0]
		w := under(beating(), 1)
		w.Deadline = time.Hour
		row := r.claimIn("sg", w)[0]
		require.Equal(t, store.Cancelling, r.cancel(id, "alice"))
		r.renewOne(store.Renewal{ID: id, Fence: row.Fence, Report: reported(`0.9`, "nearly", `{"page":90}`)})
		r.Advance(t, time.Minute)
		before := r.get(id)
		require.True(t, complete(id, row.Fence, `{"ok":true}`), way)
		got := r.get(id)
		require.Equal(t, task.StateSucceeded, got.State, way)
		require.Equal(t, row.Fence+1, got.Fence, way)
		require.Equal(t, r.session, got.Session, way)
		require.Equal(t, task.Succeeded, got.Outcome, way)
		require.Empty(t, got.Error, way)
		require.JSONEq(t, `{"ok":true}`, string(got.Result), way)
		require.Equal(t, 1, got.Attempt, way)
		require.Zero(t, got.Deferrals, way)
		require.True(t, got.EverStarted, way)
		require.NotNil(t, got.FinishedAt, way)
		near(t, r.now(), *got.FinishedAt)
		require.WithinDuration(t, *before.Deadline, *got.Deadline, time.Millisecond, way)
		require.NotNil(t, got.CancelRequested, "%s: it came too late, and stays on the row", way)
		require.Equal(t, "alice", got.CancelRequestedBy, way)
		r.reports(id, `0.9`, "nearly", `{"page":90}`)
		require.Empty(t, got.History, way)
		sameDeclared(t, before, got)
		require.Empty(t, r.present().Held, way)
		require.Len(t, r.list(store.TaskFilter{Key: way}), 1, "it is in the archive and nowhere else")
		r.enqueue(store.EnqueueRequest{Type: kind, Key: way, In: time.Hour}, true)
	}
}

func completeTwice(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for way, complete := range r.completions() {
		row := r.heldUnder(beating())
		require.True(t, complete(row.ID, row.Fence, `1`), way)
		r.unchanged(row.ID, func() {
			require.Equal(t, store.Ended, r.complete(row.ID, row.Fence, `2`), "the first word stands")
			require.NoError(t, r.completeSQL(row.ID, row.Fence, `2`))
		})
		r.Advance(t, time.Hour)
		r.unchanged(row.ID, func() {
			require.Equal(t, store.Ended, r.second().complete(row.ID, row.Fence, ``))
			require.NoError(t, r.completeSQL(row.ID, row.Fence, ``))
		})
	}
}

func completeRollback(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for way, complete := range r.completions() {
		row := r.rollingBack(beating())
		require.True(t, complete(row.ID, row.Fence, ``), way)
		got := r.get(row.ID)
		require.Equal(t, task.StateRolledBack, got.State, way)
		require.Equal(t, task.Succeeded, got.Outcome, way)
		require.Len(t, got.History, 2, way)
		last := got.History[1]
		require.Equal(t, task.Rollback, last.Phase, way)
		require.Equal(t, task.StateRolledBack, last.State, way)
		require.Equal(t, store.Ended, r.complete(row.ID, row.Fence, ``), way)
		require.NoError(t, r.completeSQL(row.ID, row.Fence, ``), way)
	}
}

func completeLater(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for way, complete := range r.completions() {
		row := r.heldUnder(beating())
		first := retry(row, 0)
		first.Next.Deferrals = 3
		r.settled(first)
		row = r.claim(under(beating(), 1))[0]
		r.Advance(t, time.Minute)
		claimed := *r.get(row.ID).ClaimedAt
		require.True(t, complete(row.ID, row.Fence, `{"ok":true}`), way)
		got := r.get(row.ID)
		require.Equal(t, 2, got.Attempt, way)
		require.Zero(t, got.Deferrals, way)
		require.Len(t, got.History, 2, way)
		last := got.History[1]
		require.Equal(t, row.Fence, last.Fence, way)
		require.Equal(t, r.session, last.Session, way)
		require.Equal(t, task.Run, last.Phase, way)
		require.Equal(t, 2, last.Attempt, way)
		require.Equal(t, task.Succeeded, last.Outcome, way)
		require.Equal(t, task.StateSucceeded, last.State, way)
		require.JSONEq(t, `{"ok":true}`, string(last.Result), way)
		require.NotNil(t, last.StartedAt, way)
		require.WithinDuration(t, claimed, *last.StartedAt, time.Millisecond, way)
		near(t, r.now(), last.EndedAt)
	}
}

func completeResult(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for way, complete := range r.completions() {
		row := r.heldUnder(beating())
		end := retry(row, 0)
		end.Outcome.Result = raw(`{"page":1}`)
		r.settled(end)
		row = r.claim(under(beating(), 1))[0]
		require.True(t, complete(row.ID, row.Fence, ``), way)
		require.JSONEq(t, `{"page":1}`, string(r.get(row.ID).Result), way)

		row = r.heldUnder(beating())
		require.True(t, complete(row.ID, row.Fence, ``), way)
		require.Nil(t, r.get(row.ID).Result, way)
		row = r.heldUnder(beating())
		longest := `"` + strings.Repeat("x", task.MaxResult-2) + `"`
		require.True(t, complete(row.ID, row.Fence, longest), way)
		require.Len(t, r.get(row.ID).Result, task.MaxResult, way)
	}
	row := r.heldUnder(beating())
	err := r.completeSQL(row.ID, row.Fence, `"`+strings.Repeat("x", task.MaxResult)+`"`)
	require.ErrorContains(t, err, "result must be 64 KiB at most")
	for _, result := range awkward() {
		row := r.heldUnder(beating())
		require.Equal(t, store.Applied, r.complete(row.ID, row.Fence, result), "%.40s", result)
		require.Equal(t, task.StateSucceeded, r.state(row.ID))
	}
}

func completeStale(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for way, complete := range r.completions() {
		row := r.heldUnder(beating())
		refused := func(fences ...task.Fence) {
			t.Helper()
			r.unchanged(row.ID, func() {
				for _, f := range fences {
					require.False(t, complete(row.ID, f, `"stale"`), "%s, fence %d", way, f)
				}
			})
		}
		refused(0, -1, row.Fence-1, row.Fence+1, row.Fence+2)
		require.False(t, complete(999_999_999, row.Fence, ``), way)
		r.settled(retry(row, 0))
		refused(row.Fence, row.Fence+1, row.Fence+2)
		next := r.claim(under(beating(), 1))[0]
		refused(row.Fence, row.Fence+1)
		require.True(t, complete(next.ID, next.Fence, ``), way)
		refused(row.Fence, row.Fence+1, next.Fence+1)
	}
}

func completeReaped(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	for way, complete := range r.completions() {
		r.present()
		row := r.heldUnder(beating())
		require.NoError(t, r.Leave(r.ctx, r.session))
		require.Len(t, o.sweep(10), 1)
		r.unchanged(row.ID, func() {
			require.False(t, complete(row.ID, row.Fence, ``), way)
			require.False(t, complete(row.ID, row.Fence+1, ``), "%s: no task was given the reaper's fence", way)
		})
	}
}

func completeLate(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for way, complete := range r.completions() {
		row := r.heldUnder(beating())
		r.Advance(t, time.Hour)
		require.True(t, complete(row.ID, row.Fence, ``), way)
		require.Equal(t, task.StateSucceeded, r.state(row.ID), way)
	}
}

func completeThenSettle(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for way, complete := range r.completions() {
		row := r.heldUnder(beating())
		require.True(t, complete(row.ID, row.Fence, `1`), way)
		r.unchanged(row.ID, func() {
			for _, end := range []store.Settlement{finish(row), retry(row, 0), release(row)} {
				require.Equal(t, same(store.Ended, 1), r.settle(end), way)
				require.Equal(t, same(store.Lost, 1), r.second().settle(end), way)
			}
			require.Equal(t, store.Lost, r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Window: time.Hour}), way)
			require.Equal(t, store.PingReply{}, r.ping(row, everything()), way)
			gone(t, r.holdSQL(row.ID, row.Fence))
		})
	}
}

func settleThenComplete(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	failed := func(row task.Task) store.Settlement {
		end := retry(row, 0)
		end.Next.State = task.StateFailed
		return end
	}
	cancelled := func(row task.Task) store.Settlement {
		end := retry(row, 0)
		end.Next.State, end.Outcome.Verdict = task.StateCancelled, task.Cancelled
		return end
	}
	for way, complete := range r.completions() {
		for _, end := range []func(task.Task) store.Settlement{
			failed, cancelled, func(row task.Task) store.Settlement { return retry(row, time.Hour) },
		} {
			row := r.heldUnder(beating())
			r.settled(end(row))
			r.unchanged(row.ID, func() { require.False(t, complete(row.ID, row.Fence, `1`), way) })
		}
		row := r.heldUnder(beating())
		r.settled(finish(row))
		r.unchanged(row.ID, func() {
			require.True(t, complete(row.ID, row.Fence, `1`), "%s: it has ended well already", way)
		})
	}
}

func completeRolledBack(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	r.unchanged(row.ID, func() {
		a := r.Begin(t)
		require.NoError(t, a.Complete(r.ctx, row.ID, row.Fence, raw(`1`)))
		require.NoError(t, a.Rollback(r.ctx))
	})
	notified, err := r.Completed(r.ctx, []store.Held{{ID: row.ID, Fence: row.Fence}})
	require.NoError(t, err)
	require.Equal(t, []bool{false}, notified)
	require.Len(t, r.present().Held, 1)
	r.settled(finish(row))
}

func completeWithHold(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	business := func(ctx context.Context, a Application) error {
		if err := a.Hold(ctx, row.ID, row.Fence); err != nil {
			return err
		}
		return a.Complete(ctx, row.ID, row.Fence, raw(`{"ok":true}`))
	}
	require.NoError(t, r.bySQL(business))
	require.Equal(t, task.StateSucceeded, r.state(row.ID))
	gone(t, r.bySQL(business)) // a transaction that holds first finds that the task was completed before
}

func completedNotified(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	r.insert(6)
	rows := r.claim(under(beating(), 6))
	require.Equal(t, store.Applied, r.complete(rows[1].ID, rows[1].Fence, ``))
	require.NoError(t, r.completeSQL(rows[3].ID, rows[3].Fence, ``))
	failed := finish(rows[4])
	failed.Next.State, failed.Outcome = task.StateFailed, task.Outcome{Verdict: task.Rejected, Error: "never"}
	r.settled(failed, retry(rows[5], time.Hour))
	asked := []store.Held{{ID: rows[3].ID, Fence: rows[3].Fence}, {ID: 999_999_999, Fence: 1}}
	want := []bool{true, false}
	for i, row := range rows {
		asked = append(asked, store.Held{ID: row.ID, Fence: row.Fence}, store.Held{ID: row.ID, Fence: row.Fence + 1})
		want = append(want, i == 1 || i == 3, false)
	}
	got, err := r.Completed(r.ctx, asked)
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = r.Completed(r.ctx, nil)
	require.NoError(t, err)
	require.Empty(t, got)
	back := r.rollingBack(beating())
	require.Equal(t, store.Applied, r.complete(back.ID, back.Fence, ``))
	got, err = r.Completed(r.ctx, []store.Held{{ID: back.ID, Fence: back.Fence}})
	require.NoError(t, err)
	require.Equal(t, []bool{true}, got)
}

// What was completed stays so for who repeats it, and for who asks, although an operator has it rolled back meanwhile.
func completedRolledBack(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for name, complete := range r.completions() {
		r.insert(1)
		row := r.claimOne(kind, task.Run)
		require.True(t, complete(row.ID, row.Fence, `1`), name)
		for _, then := range []func(){
			func() { r.did(became(task.StateRollbackPending), r.h.Rollback, row.ID, "alice") },
			func() { require.Equal(t, row.ID, r.claimOne(kind, task.Rollback).ID) },
		} {
			then()
			got, err := r.Completed(r.ctx, []store.Held{{ID: row.ID, Fence: row.Fence}, {ID: row.ID, Fence: row.Fence + 1}})
			require.NoError(t, err)
			require.Equal(t, []bool{true, false}, got, name)
			require.True(t, complete(row.ID, row.Fence, `1`), name)
		}
	}
}

func completeRace(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	agents := []*rig{r.rig, r.second().rig, r.second().rig, r.second().rig}
	r.insert(20)
	rows := r.claim(under(beating(), 20))
	var applied, ended atomic.Int64
	together(agents, func(ctx context.Context, o *rig) error {
		if o == agents[3] { // the holder has something else to say
			ends := make([]store.Settlement, len(rows))
			for i, row := range rows {
				ends[i] = retry(row, time.Hour)
			}
			return o.settleAll(ctx, r.session, ends, &applied, &ended)
		}
		for _, row := range rows {
			for answer := store.Busy; answer == store.Busy; {
				var err error
				if answer, err = o.Complete(ctx, row.ID, row.Fence, nil); err != nil {
					return err
				}
				if answer == store.Applied {
					applied.Add(1)
				}
			}
		}
		return nil
	})
	require.EqualValues(t, len(rows), applied.Load(), "each attempt ended once")
	for _, row := range rows {
		require.Equal(t, row.Fence+1, r.get(row.ID).Fence)
	}
	require.Empty(t, r.present().Held)
}

func completeCrash(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	seen, done := map[store.Answer]int{}, 0
	for _, point := range r.Failpoints() {
		row := r.heldUnder(beating())
		r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Report: reported(`0.4`, "page 40", `{"page":40}`)})
		hit := r.crash(point)
		_, err := r.Complete(r.ctx, row.ID, row.Fence, raw(`1`))
		r.Fail(nil)
		if !hit() {
			require.NoError(t, err)
			done++
			continue
		}
		require.ErrorIs(t, err, errCrash, point)
		done++
		require.Len(t, r.list(store.TaskFilter{Limit: 1000}), done, point)
		answer := r.complete(row.ID, row.Fence, `1`)
		require.Contains(t, []store.Answer{store.Applied, store.Ended}, answer, point)
		seen[answer]++
		require.Equal(t, store.Ended, r.complete(row.ID, row.Fence, `1`), point)
		info := r.get(row.ID)
		require.Equal(t, task.StateSucceeded, info.State, point)
		require.Equal(t, row.Fence+1, info.Fence, point)
		r.reports(row.ID, `0.4`, "page 40", `{"page":40}`)
		require.Empty(t, r.present().Held, point)
	}
	require.Positive(t, seen[store.Applied], "a crash before the commit")
	require.Positive(t, seen[store.Ended], "a crash after it")
}
