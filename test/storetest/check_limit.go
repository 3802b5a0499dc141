package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func limitChecks() []Check {
	return []Check{
		{"never more than the limit, over all agents", limitBounds},
		{"runs, rollbacks and aliases share it", limitShared},
		{"every end of an attempt makes room", limitEnds},
		{"what runs detached, is reaped or is being completed counts", limitHolds},
		{"what ran before there was a limit counts", limitLater},
		{"what may still be at work keeps its place", limitKeeps},
		{"a place is kept for no longer after the clock was set back", limitSetBack},
		{"an agent that declares none obeys it", limitObeyed},
		{"the newest declaration is in force", limitNewest},
		{"it goes with the last agent that declares it", limitGone},
		{"an agent that may be alive still declares it", limitDoubt},
		{"agents that claim at once", limitConcurrent},
		{"beside types without one", limitBeside},
		{"documents of any size", limitDocuments},
	}
}

// limited is a limit of a type without aliases.
func limited(typ string, most int) store.TypeLimit {
	return store.TypeLimit{Name: typ, Types: []string{typ}, Most: most}
}

// limits writes a heartbeat of the rig's session, which declares these limits and no others.
func (r *rig) limits(limits ...store.TypeLimit) {
	r.t.Helper()
	a := agent(r.name)
	a.Limits = limits
	_, err := r.Present(r.ctx, store.Heartbeat{Session: r.session, Agent: a})
	require.NoError(r.t, err)
}

// limitsCalm is limits by a session that vouches for the store's clock.
func (r *rig) limitsCalm(limits ...store.TypeLimit) {
	r.t.Helper()
	a := agent(r.name)
	a.Limits = limits
	view := func() store.View { return store.View{Now: r.Now(), Calm: later} }
	_, err := r.Present(r.ctx, store.Heartbeat{Session: r.session, Agent: a, View: view})
	require.NoError(r.t, err)
}

// claimRooms claims, and returns what the store says of limits.
func (r *rig) claimRooms(wants ...store.Want) ([]task.Task, map[string]store.Room) {
	r.t.Helper()
	r.claims++
	rooms := map[string]store.Room{}
	got, err := r.Claim(r.ctx, store.Claim{Session: r.session, Number: r.claims, Wants: wants, Limited: rooms})
	require.NoError(r.t, err)
	return got, rooms
}

// learns has the rig's store know which types have a limit, as each heartbeat does.
func (r *rig) learns() { r.t.Helper(); r.present() }

func limitBounds(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	all := r.insert(10)
	r.limits(limited(kind, 3))
	o.limits(limited(kind, 3))
	got, rooms := r.claimRooms(want(kind, 2))
	require.Equal(t, all[:2], ids(got))
	require.Equal(t, map[string]store.Room{kind: {Limit: kind, Rows: 3}}, rooms)
	more, rooms := o.claimRooms(want(kind, 5))
	require.Equal(t, all[2:3], ids(more), "two run")
	require.Equal(t, map[string]store.Room{kind: {Limit: kind, Rows: 1}}, rooms)
	none, rooms := r.claimRooms(want(kind, 5))
	require.Empty(t, none)
	require.Equal(t, map[string]store.Room{kind: {Limit: kind, Rows: 0}}, rooms)
	r.settled(finish(got[0]))
	require.Equal(t, all[3:4], ids(o.claim(want(kind, 5))))
	read, err := o.Claimed(o.ctx, o.session, o.claims)
	require.NoError(t, err)
	require.Equal(t, all[3:4], ids(read), "a claim of a type with a limit can be read back")
	require.Equal(t, all[2], more[0].ID)
	o.settled(finish(more[0]))
	r.limits(limited(kind, 1))
	require.Empty(t, r.claim(want(kind, 5)), "a lower limit stops nothing that runs, and lets nothing start")
}

func limitShared(t testing.TB, h Harness) {
	r := newRig(t, h)
	undone := r.heldOf("new")
	r.settled(ended(undone, task.Failed, task.StateRollbackPending))
	rows := r.Insert(t, store.EnqueueRequest{Type: "old"}, store.EnqueueRequest{Type: "new"}, store.EnqueueRequest{Type: "old"})
	r.limits(store.TypeLimit{Name: "new", Types: []string{"new", "old"}, Most: 3})
	rollback := want("new", 2)
	rollback.Phase = task.Rollback
	got, rooms := r.claimRooms(want("new", 2), rollback, want("old", 5))
	require.Equal(t, []task.ID{rows[1], undone.ID, rows[0]}, ids(got), "the first wants get the room")
	require.Equal(t, map[string]store.Room{"new": {Limit: "new", Rows: 3}, "old": {Limit: "new", Rows: 3}}, rooms)
	require.Empty(t, r.claim(want("old", 1), want("new", 1), rollback))
	r.settled(finish(got[0]))
	require.Equal(t, rows[2:], ids(r.claim(want("old", 1), want("new", 1), rollback)))
}

func limitEnds(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(20)
	r.limits(limited(kind, 1))
	for _, end := range []func(task.Task){
		func(row task.Task) { r.settled(finish(row)) },
		func(row task.Task) { r.settled(retry(row, time.Hour)) },
		func(row task.Task) { r.settled(release(row)) },
		func(row task.Task) { r.settled(ended(row, task.Failed, task.StateRollbackPending)) },
		func(row task.Task) {
			app := r.Begin(t)
			require.NoError(t, app.Complete(r.ctx, row.ID, row.Fence, nil))
			require.NoError(t, app.Commit(r.ctx))
		},
	} {
		got := r.claim(want(kind, 5))
		require.Len(t, got, 1)
		require.Empty(t, r.claim(want(kind, 5)))
		end(got[0])
	}
	require.Len(t, r.claim(want(kind, 5)), 1)
}

func limitHolds(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(5)
	r.limits(limited(kind, 2))
	got := r.claim(want(kind, 5))
	require.Len(t, got, 2)
	answers, err := r.Renew(r.ctx, r.session, []store.Renewal{{ID: got[0].ID, Fence: got[0].Fence, Window: window, Detach: true}})
	require.NoError(t, err)
	require.Equal(t, same(store.Applied, 1), answers)
	require.Empty(t, r.claim(want(kind, 5)))
	r.Advance(t, later)
	o := r.other("second")
	o.learns()
	require.Empty(t, o.claim(want(kind, 5)), "an attempt whose lease has expired counts until it is settled")
	reaped := o.sweep(5)
	require.Len(t, reaped, 2)
	require.Empty(t, o.claim(want(kind, 5)))
	o.settled(finish(reaped[0].Task))
	require.Len(t, o.claim(want(kind, 5)), 1)
}

func limitKeeps(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(9)
	r.limits(limited(kind, 4))
	rows := r.claim(want(kind, 9))
	require.Len(t, rows, 4)
	unknown := func(s store.Settlement) store.Settlement {
		s.Next.AfterLease = true
		return s
	}
	failed, waits, good, gone := rows[0], rows[1], rows[2], rows[3]
	if unlock := r.LockRow(t, failed.ID); unlock != nil {
		for range 2 {
			require.Equal(t, same(store.Busy, 1), r.settle(unknown(ended(failed, task.TimedOut, task.StateFailed))))
		}
		unlock()
		require.Empty(t, r.claim(want(kind, 9)), "what is not settled has one place")
	}
	answers, err := r.Renew(r.ctx, r.session, []store.Renewal{{ID: failed.ID, Fence: failed.Fence, Window: 2 * window}}) // it went on meanwhile
	require.NoError(t, err)
	require.Equal(t, same(store.Applied, 1), answers)
	r.settled(unknown(ended(failed, task.TimedOut, task.StateFailed)), unknown(retry(waits, 0)), finish(good))
	require.Equal(t, store.Ended, r.settle(unknown(ended(failed, task.TimedOut, task.StateFailed)))[0])
	more := r.claim(want(kind, 9))
	require.Len(t, more, 1, "only the one that is known to have ended")
	r.settled(unknown(ended(gone, task.Failed, task.StateRollbackPending)))
	r.Advance(t, window-time.Minute)
	r.limits(limited(kind, 4))
	require.Empty(t, r.claim(want(kind, 9)))
	r.Advance(t, 2*time.Minute)
	r.limits(limited(kind, 4))
	require.Len(t, r.claim(want(kind, 9)), 2, "their leases are over")
	r.Advance(t, window)
	r.limits(limited(kind, 4))
	require.Len(t, r.claim(want(kind, 9)), 1, "and that one's, which was longer")
	require.Equal(t, task.StateRunning, r.state(more[0].ID))
}

func limitSetBack(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(2)
	r.limits(limited(kind, 1))
	row := r.claim(want(kind, 9))[0]
	end := ended(row, task.TimedOut, task.StateFailed)
	end.Next.AfterLease = true
	r.settled(end)
	r.Advance(t, -day)
	r.limits(limited(kind, 1))
	require.Empty(t, r.claim(want(kind, 9)))
	r.Insert(t, store.EnqueueRequest{Type: kind})
	r.Advance(t, window-time.Minute)
	r.limits(limited(kind, 1))
	require.Empty(t, r.claim(want(kind, 9)))
	r.Advance(t, 2*time.Minute)
	r.limits(limited(kind, 1))
	require.Len(t, r.claim(want(kind, 9)), 1)
}

func limitLater(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(10)
	got := r.claim(want(kind, 3))
	require.Len(t, got, 3)
	r.limits(limited(kind, 4))
	require.Len(t, r.claim(want(kind, 5)), 1)
	r.settled(finish(got[0]), finish(got[1]))
	require.Len(t, r.claim(want(kind, 5)), 2)
	r.Advance(t, 2*time.Minute)
	require.Empty(t, r.claim(want(kind, 5)), "one that ran before is left")
	r.settled(finish(got[2]))
	require.Len(t, r.claim(want(kind, 5)), 1)
	require.Empty(t, r.claim(want(kind, 5)))
	r.limits()
	require.Len(t, r.claim(want(kind, 1)), 1, "no limit any more")
	r.limits(limited(kind, 4))
	require.Empty(t, r.claim(want(kind, 5)), "five run")
}

func limitObeyed(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	all := r.insert(10)
	r.limits(limited(kind, 2))
	require.LessOrEqual(t, len(o.claim(want(kind, 5))), 2, "by a session that may not know of the limit yet")
	o.learns()
	o.claim(want(kind, 5))
	n := 0
	for _, id := range all {
		if o.state(id) == task.StateRunning {
			n++
		}
	}
	require.Equal(t, 2, n)
}

func limitNewest(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	r.insert(20)
	r.limits(limited(kind, 2))
	o.limits(limited(kind, 5))
	r.limits(limited(kind, 2))
	r.limitsCalm(limited(kind, 2))
	got := r.claim(want(kind, 20))
	require.Len(t, got, 5, "the newest")
	for _, row := range got {
		r.settled(release(row))
	}
	third := r.other("third")
	third.limits(limited(kind, 2))
	r.limits(limited(kind, 2))
	require.Len(t, third.claim(want(kind, 20)), 5, "a known one is no new load")
	require.NoError(t, o.Leave(r.ctx, o.session))
	r.limits(limited(kind, 2))
	require.Empty(t, r.claim(want(kind, 20)))
	require.NoError(t, third.Leave(r.ctx, third.session))
	r.limits(limited(kind, 7))
	r.limits(limited(kind, 2))
	got = r.claim(want(kind, 20))
	require.Empty(t, got, "no present agent declares another one")
}

func limitGone(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	r.insert(10)
	o.limits(limited(kind, 1), limited("other", 1))
	r.learns()
	require.Len(t, r.claim(want(kind, 5)), 1)
	o.limits(limited("other", 1))
	r.learns()
	require.Len(t, r.claim(want(kind, 5)), 5, "it is declared no longer")
	o.limits(limited(kind, 1))
	require.NoError(t, o.Leave(r.ctx, o.session))
	r.learns()
	require.Len(t, r.claim(want(kind, 3)), 3, "the agent has left")
}

func limitDoubt(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	r.insert(10)
	o.limits(limited(kind, 1))
	r.Advance(t, later)
	r.learns()
	require.Len(t, r.claim(want(kind, 5)), 1, "the clock may have jumped")
	require.Empty(t, r.claim(want(kind, 5)))
	r.limitsCalm()
	require.Len(t, r.claim(want(kind, 5)), 5, "it was silent for its whole TTL")
}

func limitConcurrent(t testing.TB, h Harness) {
	r := newRig(t, h)
	const most = 3
	all := r.insert(100)
	agents := []*rig{r}
	for range 3 {
		agents = append(agents, r.other("another"))
	}
	for _, o := range agents {
		o.limits(limited(kind, most))
	}
	var seen tally
	var running, finished atomic.Int64
	together(agents, func(ctx context.Context, r *rig) error {
		for finished.Load() < int64(len(all)) {
			r.claims++
			got, err := r.Claim(ctx, store.Claim{Session: r.session, Number: r.claims, Wants: []store.Want{want(kind, 2)}})
			if err != nil {
				return err
			}
			// A row is counted after its claim and no longer than until its settlement, so no more than run are.
			if n := running.Add(int64(len(got))); n > most {
				return fmt.Errorf("%d tasks run", n)
			}
			seen.add(got...)
			for _, row := range got {
				running.Add(-1)
				if _, err := r.Settle(ctx, r.session, []store.Settlement{finish(row)}); err != nil {
					return err
				}
				finished.Add(1)
			}
		}
		return nil
	})
	seen.once(t, all)
}

func limitBeside(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.limits(limited("a", 1))
	rows := r.Insert(t, store.EnqueueRequest{Type: "a"}, store.EnqueueRequest{Type: "b"}, store.EnqueueRequest{Type: "a"},
		store.EnqueueRequest{Type: "b", Priority: 3}, store.EnqueueRequest{Type: "a", Priority: 2})
	got, rooms := r.claimRooms(want("b", 1), want("a", 5), want("none", 2))
	require.Equal(t, []task.ID{rows[3], rows[4]}, ids(got), "in order, want by want")
	require.Equal(t, map[string]store.Room{"a": {Limit: "a", Rows: 1}}, rooms)
	r.settled(finish(got[1]))
	require.Equal(t, []task.ID{rows[0], rows[1]}, ids(r.claim(want("a", 1), want("b", 5))))
}

func limitDocuments(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.limits(limited(kind, 10))
	body := `{"text":"` + strings.Repeat("0123456789abcdef", 1500) + `"}`
	for _, n := range []int{1, 5} {
		for range n {
			r.Insert(t, store.EnqueueRequest{Type: kind, Payload: json.RawMessage(body)})
		}
		got := r.claim(want(kind, 10))
		require.Len(t, got, n)
		for _, row := range got {
			sameJSON(t, body, row.Payload, "of %d rows", n)
			r.settled(finish(row))
		}
	}
}
