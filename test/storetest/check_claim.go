package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func claimChecks() []Check {
	return []Check{
		{"no more bytes than were asked for", claimBytes},
		{"documents of any size, of runs and of rollbacks", claimDocuments},
		{"never more than wanted", claimBounded},
		{"priority, then due time, then id", claimOrder},
		{"future rows stay", claimFuture},
		{"several wants in one claim", claimWants},
		{"other types stay", claimTypes},
		{"regions", claimRegions},
		{"rows to roll back", claimRollback},
		{"a row that is kept is passed over", claimKept},
	}
}

func claimBounded(t testing.TB, h Harness) {
	r := newRig(t, h)
	all := r.insert(10)
	require.Equal(t, all[:4], ids(r.claim(want(kind, 4))))
	require.Equal(t, all[4:7], ids(r.claim(want(kind, 3))))
	require.Equal(t, all[7:], ids(r.claim(want(kind, 100))))
	require.Empty(t, r.claim(want(kind, 100)))
}

func claimOrder(t testing.TB, h Harness) {
	r := newRig(t, h)
	in := func(priority int, ago time.Duration) store.EnqueueRequest {
		return store.EnqueueRequest{Type: kind, Priority: priority, RunAt: r.now().Add(-ago)}
	}
	due := r.now().Add(-time.Hour)
	got := r.Insert(t,
		in(0, time.Minute), in(0, 3*time.Minute), in(10, time.Minute), in(-10, 4*time.Minute), in(1, 2*time.Minute),
		store.EnqueueRequest{Type: kind, RunAt: due}, store.EnqueueRequest{Type: kind, RunAt: due})
	wanted := []task.ID{got[2], got[4], got[5], got[6], got[1], got[0], got[3]}
	require.Equal(t, wanted[:2], ids(r.claim(want(kind, 2))))
	require.Equal(t, wanted[2:], ids(r.claim(want(kind, 10))))
}

func claimFuture(t testing.TB, h Harness) {
	r := newRig(t, h)
	got := r.Insert(t, store.EnqueueRequest{Type: kind, In: 10 * time.Minute, Priority: 10}, store.EnqueueRequest{Type: kind})
	require.Equal(t, got[1:], ids(r.claim(want(kind, 10))))
	r.Advance(t, 9*time.Minute)
	require.Empty(t, r.claim(want(kind, 10)))
	r.Advance(t, 2*time.Minute)
	require.Equal(t, got[:1], ids(r.claim(want(kind, 10))))
}

func claimWants(t testing.TB, h Harness) {
	r := newRig(t, h)
	rows := r.Insert(t,
		store.EnqueueRequest{Type: "b"}, store.EnqueueRequest{Type: "a"}, store.EnqueueRequest{Type: "b", Priority: 5}, store.EnqueueRequest{Type: "a"},
		store.EnqueueRequest{Type: "c"}, store.EnqueueRequest{Type: "a", Priority: 1})
	got := r.claim(want("a", 2), want("b", 10), want("none", 3))
	require.Equal(t, []task.ID{rows[5], rows[1], rows[2], rows[0]}, ids(got), "in order, want by want")
	require.Equal(t, []task.ID{rows[4], rows[3]}, ids(r.claim(want("c", 1), want("a", 1), want("b", 1))))
	require.Empty(t, r.claim(), "nothing is wanted")
}

func claimTypes(t testing.TB, h Harness) {
	r := newRig(t, h)
	rows := r.Insert(t, store.EnqueueRequest{Type: kind + ".more"}, store.EnqueueRequest{Type: "Suite.Work"}, store.EnqueueRequest{Type: kind})
	require.Equal(t, rows[2:], ids(r.claim(want(kind, 10))))
	require.Equal(t, task.StatePending, r.state(rows[0]))
	require.Equal(t, task.StatePending, r.state(rows[1]))
}

func claimRegions(t testing.TB, h Harness) {
	r := newRig(t, h)
	due := r.now().Add(-time.Hour)
	in := func(region string, after time.Duration, priority int) store.EnqueueRequest {
		return store.EnqueueRequest{Type: kind, Region: region, RunAt: due.Add(after), Priority: priority}
	}
	rows := r.Insert(t,
		in("sg", 4*time.Minute, 0), in("", 3*time.Minute, 0), in("sg", 2*time.Minute, 0), in("", time.Minute, 0),
		in("eu", 0, 9), in("", 5*time.Minute, 1), in("eu", time.Minute, 0), in("", 6*time.Minute, 0))
	require.Equal(t, []task.ID{rows[5], rows[3], rows[2]}, ids(r.claimIn("sg", want(kind, 3))),
		"rows of the region and of none compete by due time")
	require.Equal(t, []task.ID{rows[1], rows[7]}, ids(r.claimIn("", want(kind, 10))),
		"an agent of no region takes rows of none")
	require.Equal(t, []task.ID{rows[0]}, ids(r.claimIn("sg", want(kind, 10))))
	require.Empty(t, r.claimIn("us", want(kind, 10)))
	require.Equal(t, []task.ID{rows[4], rows[6]}, ids(r.claimIn("eu", want(kind, 10))))
	require.Equal(t, "eu", r.get(rows[4]).Region)
}

func claimRollback(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	rollBack := retry(row, 0)
	rollBack.Next = task.Transition{State: task.StateRollbackPending, EverStarted: true}
	r.settled(rollBack)
	require.Equal(t, task.StateRollbackPending, r.state(row.ID))
	fresh := r.insert(1)

	back := want(kind, 10)
	back.Phase = task.Rollback
	require.Equal(t, fresh, ids(r.claim(want(kind, 10))), "a want of the run phase leaves it")
	got := r.claim(back)
	require.Equal(t, []task.ID{row.ID}, ids(got))
	require.Equal(t, task.StateRollbackRunning, got[0].State)
	require.Equal(t, task.Rollback, got[0].Phase())
	require.Equal(t, 1, got[0].Attempt)
	require.True(t, got[0].EverStarted)
	require.Equal(t, row.Fence+2, got[0].Fence)

	done := finish(got[0])
	done.Next.State = task.StateRolledBack
	r.settled(done)
	require.Equal(t, task.StateRolledBack, r.state(row.ID))
}

func claimKept(t testing.TB, h Harness) {
	r := newRig(t, h)
	rows := r.insert(3)
	release := r.LockRow(t, rows[0])
	if release == nil {
		return // a store without locks on rows has nothing to pass over
	}
	defer release()
	require.Equal(t, rows[1:2], ids(r.claim(want(kind, 1))))
	release()
	require.Equal(t, []task.ID{rows[0], rows[2]}, ids(r.claim(want(kind, 10))))
}

func claimBytes(t testing.TB, h Harness) {
	r := newRig(t, h)
	big := document(300 << 10)
	var ids []task.ID
	for range 10 {
		ids = append(ids, r.Insert(t, store.EnqueueRequest{Type: kind, Payload: big})...)
	}
	claim := func(bytes int64) (got []task.ID, cut bool) {
		r.claims++
		rows, err := r.Claim(r.ctx, store.Claim{
			Session: r.session, Number: r.claims, Wants: []store.Want{want(kind, 100)}, Bytes: bytes, Cut: &cut,
		})
		require.NoError(t, err)
		for i := range rows {
			sameJSON(t, string(big), rows[i].Payload, "claimed")
			got = append(got, rows[i].ID)
		}
		return got, cut
	}
	got, cut := claim(1 << 20)
	require.Equal(t, ids[:4], got, "the fourth is the one that comes to it")
	require.True(t, cut)
	got, cut = claim(1)
	require.Equal(t, ids[4:5], got, "the first always fits")
	require.True(t, cut)
	got, cut = claim(100 << 20)
	require.Equal(t, ids[5:], got)
	require.False(t, cut)
	r.Insert(t, store.EnqueueRequest{Type: kind, Payload: big})
	got, _ = claim(0)
	require.Len(t, got, 1, "0 is no bound")
}

// claimDocuments claims rows with small documents and rows with large ones, to be run and to be rolled back: all documents come as
// they were stored, and the bound on bytes holds for each phase separately.
func claimDocuments(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	large, small := document(900<<10), raw(`{"n":1}`)
	wide := raw(`"` + strings.Repeat("a", 900<<10) + `"`) // compressed well
	want := map[task.ID]store.EnqueueRequest{}
	requests := []store.EnqueueRequest{
		{Payload: small}, {Payload: large}, {Payload: wide, RollbackPayload: small}, {Payload: small, RollbackPayload: wide},
		{Payload: large, RollbackPayload: large},
	}
	for _, q := range requests {
		q.Type = kind
		want[r.rowIn(q, task.StateSucceeded, true)] = q
	}
	for id := range want {
		_, err := r.h.Rollback(r.ctx, id, "alice")
		require.NoError(t, err)
	}
	for _, q := range requests {
		q.Type = kind
		want[r.Insert(t, q)[0]] = q
	}
	r.Advance(t, time.Hour)
	r.present()
	claim := func(bytes int64) (runs, rollbacks int) {
		r.claims++
		got, err := r.Claim(r.ctx, store.Claim{
			Session: r.session, Number: r.claims, Wants: []store.Want{wantOf(kind, task.Run, 10), wantOf(kind, task.Rollback, 10)}, Bytes: bytes,
		})
		require.NoError(t, err)
		for i := range got {
			q, there := want[got[i].ID]
			require.True(t, there, "claimed once")
			delete(want, got[i].ID)
			sameOr(t, q.Payload, got[i].Payload, "payload")
			sameOr(t, q.RollbackPayload, got[i].RollbackPayload, "rollback payload")
			require.Empty(t, got[i].Unfit)
			if got[i].Phase() == task.Run {
				runs++
			} else {
				rollbacks++
			}
		}
		return runs, rollbacks
	}
	runs, rollbacks := claim(1)
	require.Equal(t, [2]int{1, 1}, [2]int{runs, rollbacks}, "the first of each phase")
	runs, rollbacks = claim(0)
	require.Equal(t, [2]int{4, 4}, [2]int{runs, rollbacks})
	require.Empty(t, want)
}
