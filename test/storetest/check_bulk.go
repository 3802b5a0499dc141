package storetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func bulkChecks() []Check {
	return []Check{
		{"others find it", leftBulks},
		{"retry by each filter", bulkFilters},
		{"cancel", bulkCancels},
		{"rollback", bulkRollsBack},
		{"each task once, though it fails again", bulkOnce},
		{"each task once, though it is retried", bulkCancelsOnce},
		{"no task that has come since", bulkBound},
		{"locked rows are tried again", bulkLocked},
		{"rows that stay locked", bulkStaysLocked},
		{"rows that change in between", bulkRaced},
		{"any agent carries it on", bulkCarriedOn},
		{"two agents at once", bulkTwo},
		{"a crash at each point of a step", bulkCrash},
		{"what cannot be retried", bulkRefused},
		{"batches begin a new round", bulkBatches},
		{"stopped", bulkStopped},
		{"several at once", bulkSeveral},
		{"in bounded steps", bulkSteps},
		{"it is forgotten", bulkForgotten},
		{"bad filters", bulkInput},
		{"a preview is bounded", bulkPreviewed},
	}
}

func bulkFilters(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	old := r.failed(store.EnqueueRequest{Type: kind}, "answered 502: bad gateway at 10.0.0.1")
	r.Advance(t, 3*time.Hour)
	labelled := r.failed(store.EnqueueRequest{Type: kind, Labels: map[string]string{"tenant": "acme", "a": "b"}}, "boom")
	other := r.failed(store.EnqueueRequest{Type: "other", Labels: map[string]string{"tenant": "beta"}}, "answered 502: bad gateway at 10.9.9.2")
	group, _ := r.batch(store.BatchRequest{Open: true})
	require.NoError(t, r.add(group, store.EnqueueRequest{Type: kind}))
	r.fails(kind, "boom")
	in := r.rows(group)[0].ID
	cancelled := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateCancelled, false)
	r.rowIn(store.EnqueueRequest{Type: kind}, task.StateSucceeded, true)
	r.rowIn(store.EnqueueRequest{Type: kind}, task.StateRunning, true)
	r.rowIn(store.EnqueueRequest{Type: kind}, task.StatePending, false)

	since := r.Now().Add(-2 * time.Hour)
	for name, c := range map[string]struct {
		f    store.BulkFilter
		rows int64
	}{
		"type": {store.BulkFilter{Type: "other"}, 1}, "state": {store.BulkFilter{States: []task.State{task.StateCancelled}}, 1},
		"label":  {store.BulkFilter{Labels: map[string]string{"tenant": "acme"}}, 1},
		"labels": {store.BulkFilter{Labels: map[string]string{"tenant": "acme", "a": "c"}}, 0},
		"batch":  {store.BulkFilter{Batch: group}, 1}, "no batch": {store.BulkFilter{Batch: group + 1}, 0},
		"signature": {store.BulkFilter{Signature: "answered 502: bad gateway at #"}, 2},
		"an error":  {store.BulkFilter{Signature: "answered 502: bad gateway at 10.4.4.4"}, 2},
		"since":     {store.BulkFilter{Since: &since}, 4}, "type and since": {store.BulkFilter{Type: kind, Since: &since}, 3},
		"all": {store.BulkFilter{Type: kind}, 4},
	} {
		require.Equal(t, c.rows, r.counts("retry", c.f), name)
	}
	r.changes("retry", store.BulkFilter{Labels: map[string]string{"tenant": "acme"}}, task.StatePending, labelled)
	r.changes("retry", store.BulkFilter{Batch: group, Signature: "boom"}, task.StatePending, in)
	r.changes("retry", store.BulkFilter{Signature: "answered 502: bad gateway at #"}, task.StatePending, old, other)
	b := r.changes("retry", store.BulkFilter{Type: kind}, task.StatePending, cancelled)
	require.Equal(t, "alice", b.By)
	require.Equal(t, "because", b.Reason)
	require.Empty(t, r.takes(10))
	said := r.Audit(t)
	role, _ := r.Roles(t)
	require.Equal(t, Audited{Who: "alice", Role: role, Verb: "retry", Task: cancelled, Reason: "because", Answer: "pending"}, said[len(said)-1])
}

func bulkCancels(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	pending := r.rowIn(store.EnqueueRequest{Type: kind, Key: "k"}, task.StatePending, false)
	follower, _, err := r.Enqueue(r.ctx, store.EnqueueRequest{Type: kind, Key: "k", OnLive: store.OnLiveAgain})
	require.NoError(t, err)
	if follower == pending { // it waited, and has been replaced
		follower = 0
	}
	retried := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateRetryPending, true)
	released := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateRetryPending, false)
	running := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateRunning, true)
	back := r.rowIn(store.EnqueueRequest{Type: oneWayKind}, task.StatePending, false)
	require.EqualValues(t, 1, r.counts("cancel", store.BulkFilter{Type: oneWayKind}))
	want := int64(4)
	if follower != 0 {
		want++
	}
	require.Equal(t, want, r.counts("cancel", store.BulkFilter{Type: kind}))
	b := r.ends(r.starts("cancel", store.BulkFilter{Type: kind}), 100)
	require.Equal(t, want, b.Done)
	r.in(task.StateCancelled, pending, released)
	if follower != 0 {
		r.in(task.StateCancelled, follower)
	}
	r.in(task.StateRollbackPending, retried)
	r.in(task.StatePending, back)
	i := r.get(running)
	require.NotNil(t, i.CancelRequested)
	require.Equal(t, "alice", i.CancelRequestedBy)
	require.Zero(t, r.counts("cancel", store.BulkFilter{Type: kind}), "what is asked to stop is not asked again")
}

func bulkRollsBack(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	done := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateSucceeded, true)
	failed := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateFailed, true)
	never := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateCancelled, false)
	waits := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateRetryPending, true)
	pending := r.rowIn(store.EnqueueRequest{Type: kind}, task.StatePending, false)
	running := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateRunning, true)
	oneWay := r.rowIn(store.EnqueueRequest{Type: oneWayKind}, task.StateSucceeded, true)
	r.changes("rollback", store.BulkFilter{Type: kind, States: []task.State{task.StateSucceeded}}, task.StateRollbackPending, done)
	b := r.ends(r.starts("rollback", store.BulkFilter{Type: kind}), 100)
	require.EqualValues(t, 4, b.Done)
	r.in(task.StateRollbackPending, failed, waits)
	r.in(task.StateCancelled, never, pending)
	require.NotNil(t, r.get(running).CancelRequested)
	require.Zero(t, r.counts("rollback", store.BulkFilter{Type: kind}))

	b = r.ends(r.starts("rollback", store.BulkFilter{Type: oneWayKind}), 100)
	require.EqualValues(t, 1, b.Refused)
	r.in(task.StateSucceeded, oneWay)

	held := r.get(running)
	r.settled(ended(task.Task{ID: held.ID, Fence: held.Fence, Type: kind, State: task.StateRunning, Attempt: held.Attempt},
		task.Cancelled, task.StateCancelled))
	r.over()
	r.in(task.StateRollbackPending, running)
}

func bulkOnce(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	var rows []task.ID
	for range 3 {
		rows = append(rows, r.failed(store.EnqueueRequest{Type: kind}, "boom"))
	}
	id := r.starts("retry", store.BulkFilter{Type: kind})
	for range 20 { // each fails again at once, and is archived with the same id
		if s := r.takes(1); s.Moved && r.get(rows[0]).State.Live() {
			r.fails(kind, "boom")
		} else if !s.Found {
			break
		}
		for _, row := range rows {
			if r.get(row).State.Live() {
				r.fails(kind, "boom")
			}
		}
	}
	b := r.seen(id)
	require.NotNil(t, b.EndedAt)
	require.EqualValues(t, 3, b.Done)
	for _, row := range rows {
		require.Equal(t, 1, r.get(row).Round, "it was retried once")
	}
	r.in(task.StateFailed, rows...)
	require.EqualValues(t, 3, r.ends(r.starts("retry", store.BulkFilter{Type: kind}), 10).Done, "another change does")
}

func bulkBound(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	before := r.failed(store.EnqueueRequest{Type: kind}, "boom")
	waits := r.rowIn(store.EnqueueRequest{Type: "other"}, task.StateRunning, true)
	id := r.starts("retry", store.BulkFilter{States: []task.State{task.StateFailed}})
	r.later(id)
	after := r.failed(store.EnqueueRequest{Type: kind}, "boom")
	row := r.get(waits)
	e := ended(task.Task{ID: row.ID, Fence: row.Fence, Type: "other", State: task.StateRunning, Attempt: row.Attempt}, task.Failed, task.StateFailed)
	r.settled(e)
	require.EqualValues(t, 1, r.ends(id, 10).Done)
	r.in(task.StatePending, before)
	r.in(task.StateFailed, after, waits)
}

func bulkLocked(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	first := r.rowIn(store.EnqueueRequest{Type: kind}, task.StatePending, false)
	release := r.LockRow(t, first)
	if release == nil {
		return // there are no such locks
	}
	defer release()
	second := r.rowIn(store.EnqueueRequest{Type: kind}, task.StatePending, false)
	id := r.starts("cancel", store.BulkFilter{Type: kind})
	for range 3 {
		r.takes(10)
	}
	b := r.seen(id)
	require.Nil(t, b.EndedAt)
	require.Equal(t, []task.ID{first}, b.Again)
	require.False(t, r.takes(10).Moved, "it can only wait")
	r.in(task.StateCancelled, second)
	release()
	require.True(t, r.takes(10).Moved)
	b = r.seen(id)
	require.NotNil(t, b.EndedAt)
	require.EqualValues(t, 2, b.Done)
	r.in(task.StateCancelled, first)
}

func bulkStaysLocked(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	row := r.rowIn(store.EnqueueRequest{Type: kind}, task.StatePending, false)
	release := r.LockRow(t, row)
	if release == nil {
		return
	}
	id := r.starts("cancel", store.BulkFilter{Type: kind})
	r.takes(10)
	release()
	r.Advance(t, store.BulkPatience+time.Second)
	release = r.LockRow(t, row)
	defer release()
	r.takes(10)
	b := r.seen(id)
	require.NotNil(t, b.EndedAt)
	require.Empty(t, b.Again)
	require.EqualValues(t, 1, b.Skipped)
	require.Zero(t, b.Done)
}

// between is a store on which something happens between a look and the change.
type between struct {
	bulkStore
	do func()
}

func (b *between) LookBulk(ctx context.Context, l *store.BulkLook) ([]store.BulkTask, error) {
	list, err := b.bulkStore.LookBulk(ctx, l)
	if do := b.do; do != nil {
		b.do = nil
		do()
	}
	return list, err
}

func bulkRaced(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	waits := r.Insert(t, store.EnqueueRequest{Type: kind})[0]
	gone := r.failed(store.EnqueueRequest{Type: oneWayKind}, "boom")
	r.did("pending", r.h.Retry, gone, "")
	id := r.starts("cancel", store.BulkFilter{States: []task.State{task.StatePending, task.StateRunning}})
	r.work = batch.NewBulk(&between{r.bulkStore, func() {
		require.Equal(t, waits, r.claimOne(kind, task.Run).ID)
		require.Equal(t, store.Became("cancelled"), r.cancel(gone, ""))
		r.did("pending", r.h.Retry, gone, "")
	}}, ops.NamedSignature)
	b := r.ends(id, 10)
	require.EqualValues(t, 2, b.Done, "what had changed is looked at again")
	require.NotNil(t, r.get(waits).CancelRequested)
	r.in(task.StateCancelled, gone)

	back := r.failed(store.EnqueueRequest{Type: kind}, "boom")
	id = r.starts("retry", store.BulkFilter{States: []task.State{task.StateFailed}})
	r.work = batch.NewBulk(&between{r.bulkStore, func() { r.did("pending", r.h.Retry, back, "") }}, ops.NamedSignature)
	require.Zero(t, r.ends(id, 10).Done)
	require.Equal(t, 1, r.get(back).Round)
	r.fails(kind, "boom")

	id = r.starts("retry", store.BulkFilter{States: []task.State{task.StateFailed}})
	r.later(id)
	r.work = batch.NewBulk(&between{r.bulkStore, func() {
		r.did("pending", r.h.Retry, back, "")
		r.fails(kind, "boom")
	}}, ops.NamedSignature)
	require.Zero(t, r.ends(id, 10).Done, "it has failed since")
	require.Equal(t, 2, r.get(back).Round)
}

func bulkCarriedOn(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	var rows []task.ID
	for range 5 {
		rows = append(rows, r.failed(store.EnqueueRequest{Type: kind}, "boom"))
	}
	id := r.starts("retry", store.BulkFilter{Type: kind})
	r.takes(2)
	require.EqualValues(t, 2, r.seen(id).Done)
	o := bulkRigOf(r.twin())
	require.EqualValues(t, 5, o.ends(id, 2).Done)
	r.in(task.StatePending, rows...)
}

func bulkTwo(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	const n = 30
	for range n {
		r.failed(store.EnqueueRequest{Type: kind}, "boom")
	}
	id := r.starts("retry", store.BulkFilter{Type: kind})
	mine, stale := r.seen(id), r.seen(id)
	moved, err := r.work.CarryOn(r.ctx, mine, 3)
	require.NoError(t, err)
	require.True(t, moved)
	o := bulkRigOf(r.twin())
	moved, err = o.work.CarryOn(r.ctx, stale, 3)
	require.NoError(t, err)
	require.False(t, moved, "it has seen an older version")
	require.EqualValues(t, 3, r.seen(id).Done)

	var both sync.WaitGroup
	for _, who := range []*bulkRig{r, o} {
		both.Go(func() {
			for range 200 {
				b, err := who.GetBulk(r.ctx, id)
				if err != nil || b.EndedAt != nil {
					return
				}
				_, _ = who.work.CarryOn(r.ctx, b, 2)
			}
		})
	}
	both.Wait()
	b := r.ends(id, 10)
	require.EqualValues(t, n, b.Done)
	list, err := r.h.List(r.ctx, store.TaskFilter{Type: kind, Limit: 100})
	require.NoError(t, err)
	for _, i := range list {
		require.Equal(t, 1, i.Round)
	}
}

func bulkCrash(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	for _, point := range r.BatchFailpoints() {
		row := r.failed(store.EnqueueRequest{Type: kind}, "boom")
		id := r.starts("retry", store.BulkFilter{Type: kind})
		seen := r.seen(id)
		hit := r.crash(point)
		_, err := r.work.CarryOn(r.ctx, seen, 10)
		r.Fail(nil)
		if !hit() {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, errCrash)
			if r.get(row).State.Live() { // it was applied, and the reply was lost
				r.fails(kind, "boom")
				moved, err := r.work.CarryOn(r.ctx, seen, 10)
				require.NoError(t, err)
				require.False(t, moved, "it is not applied again")
			}
		}
		require.EqualValues(t, 1, r.ends(id, 10).Done, point)
		require.Equal(t, 1, r.get(row).Round, point)
		if r.get(row).State == task.StateFailed {
			r.did("pending", r.h.Retry, row, "")
		}
		require.Equal(t, row, r.claimOne(kind, task.Run).ID) // out of the way
	}
}

func bulkRefused(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	keyed := r.failed(store.EnqueueRequest{Type: kind, Key: "k"}, "boom")
	r.rowIn(store.EnqueueRequest{Type: kind, Key: "k"}, task.StatePending, false)
	id, ids := r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: kind, In: farOff})
	r.fails(kind, "boom")
	free := r.failed(store.EnqueueRequest{Type: kind}, "boom")
	r.gets(r.h.CancelBatch, id, "", "cancelling")
	b := r.ends(r.starts("retry", store.BulkFilter{Type: kind}), 10)
	require.EqualValues(t, 1, b.Done)
	require.EqualValues(t, 2, b.Refused, "one whose key is another's, and one of a batch that is being cancelled")
	r.in(task.StateFailed, keyed, ids[0])
	r.in(task.StatePending, free)
}

func bulkBatches(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	id, ids := r.batchOf(2, store.BatchRequest{})
	r.runAll(task.StateFailed, task.StateSucceeded)
	require.Equal(t, 1, r.fold().Ended)
	r.inState(id, store.BatchPartiallyFailed)
	r.changes("retry", store.BulkFilter{Batch: id}, task.StatePending, ids[0])
	require.Equal(t, 1, r.inState(id, store.BatchRunning).Round)
	r.runAll(task.StateSucceeded)
	require.Equal(t, 1, r.fold().Ended)
	r.inState(id, store.BatchSucceeded)
}

func bulkStopped(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	var rows []task.ID
	for range 3 {
		rows = append(rows, r.failed(store.EnqueueRequest{Type: kind}, "boom"))
	}
	id := r.starts("retry", store.BulkFilter{Type: kind})
	stale := r.seen(id)
	r.takes(1)
	i, err := ops.StopBulk(r.ctx, r, id, "bob")
	require.NoError(t, err)
	require.Equal(t, "stopped", i.State)
	require.EqualValues(t, 1, i.Done)
	require.Empty(t, r.takes(10))
	moved, err := r.work.CarryOn(r.ctx, stale, 10)
	require.NoError(t, err)
	require.False(t, moved)
	r.in(task.StateFailed, rows[1:]...)
	_, err = ops.StopBulk(r.ctx, r, 999, "")
	require.ErrorIs(t, err, store.ErrNoBulk)
}

func bulkSeveral(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	var ids []int64
	for _, typ := range []string{"a", "b", "c"} {
		for range 2 {
			r.failed(store.EnqueueRequest{Type: typ}, "boom")
		}
		ids = append(ids, r.starts("retry", store.BulkFilter{Type: typ}))
	}
	for range 3 {
		r.takes(1)
	}
	for _, id := range ids {
		require.EqualValues(t, 1, r.seen(id).Done, "they take turns")
	}
	for _, id := range ids {
		require.EqualValues(t, 2, r.ends(id, 1).Done)
	}
}

func bulkSteps(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	const n = 2500
	r.Insert(t, slices.Repeat([]store.EnqueueRequest{{Type: "other", In: farOff}}, n)...)
	last := r.rowIn(store.EnqueueRequest{Type: kind}, task.StatePending, false)
	id := r.starts("cancel", store.BulkFilter{Type: kind})
	require.EqualValues(t, 1, r.ends(id, 100).Done, "few of many")
	require.EqualValues(t, n+1, r.seen(id).Looked)
	r.in(task.StateCancelled, last)

	id = r.starts("cancel", store.BulkFilter{Type: "other"})
	steps := 0
	for ; r.seen(id).EndedAt == nil; steps++ {
		before := r.seen(id).Done
		r.takes(1000)
		require.LessOrEqual(t, r.seen(id).Done, before+250)
	}
	require.EqualValues(t, n, r.seen(id).Done)
	require.GreaterOrEqual(t, steps, 5)
}

func bulkForgotten(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	r.failed(store.EnqueueRequest{Type: kind}, "boom")
	over := r.starts("retry", store.BulkFilter{Type: kind})
	r.ends(over, 10)
	open := r.starts("retry", store.BulkFilter{Type: kind})
	r.Advance(t, 48*time.Hour)
	_, err := r.Maintain(r.ctx, 24*time.Hour)
	require.NoError(t, err)
	_, err = r.GetBulk(r.ctx, over)
	require.ErrorIs(t, err, store.ErrNoBulk)
	r.seen(open)
}

func bulkInput(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	for _, q := range []store.BulkRequest{
		{Verb: "retry"}, {Verb: "delete", Filter: store.BulkFilter{Type: "a"}},
		{Verb: "retry", Filter: store.BulkFilter{States: []task.State{task.StatePending}}},
		{Verb: "retry", Filter: store.BulkFilter{Type: "a\x00"}}, {Verb: "retry", Filter: store.BulkFilter{Labels: map[string]string{"a": "\xff"}}},
	} {
		_, err := ops.StartBulk(r.ctx, r, q)
		var input *store.InputError
		require.ErrorAs(t, err, &input, "%+v", q)
	}
	id := r.starts("retry", store.BulkFilter{Type: "a'); --", Labels: map[string]string{`"`: `\`}})
	b := r.ends(id, 10)
	require.Equal(t, store.BulkFilter{Type: "a'); --", Labels: map[string]string{`"`: `\`}}, b.Filter)
}
