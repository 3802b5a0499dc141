package storetest

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func batchChecks() []Check {
	return slices.Concat([]Check{
		{"every column", batchColumns},
		{"defaults", batchDefaults},
		{"bad values are refused", batchBad},
		{"what is not there", batchAbsent},
		{"rows only in the transaction that creates it", batchSealed},
		{"rows until it is sealed", batchOpen},
		{"no rows into a batch that is stopped", batchStopped},
		{"no rows into a batch that is not there", batchNone},
		{"a row that is refused leaves nothing", batchRefused},
		{"taken back", batchTakenBack},
		{"many rows in one statement", batchStatement},
		{"a key that is live is not added", batchKey},
		{"by Go", batchGo},
		{"by Go, many rows", batchGoMany},
		{"by Go, all or nothing", batchGoNothing},
		{"lists", batchList},
		{"what went wrong", batchFailures},
		{"its state follows from its counters", batchDerived},
	}, batchCountChecks(), batchEndChecks())
}

func batchColumns(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	q := store.BatchRequest{
		Name: "move to az2", OnFailure: store.OnFailureRollback, FinishType: "moved", FinishPayload: raw(`{"to":"az2"}`),
		Labels: map[string]string{"tenant": "acme"}, CreatedBy: "suite", Open: true,
	}
	bySQL, _ := r.batch(q)
	byGo, err := r.h.CreateBatch(r.ctx, q, rowsThen(nil), nil)
	require.NoError(t, err)
	require.Greater(t, byGo, bySQL)
	for _, id := range []task.BatchID{bySQL, byGo} {
		got := r.inState(id, store.BatchPending)
		near(t, r.now(), got.CreatedAt)
		sameJSON(t, `{"tenant":"acme"}`, got.Labels, "labels")
		require.Equal(t, &store.BatchInfo{
			ID: id, Name: "move to az2", State: store.BatchPending, OnFailure: store.OnFailureRollback, FinishType: "moved",
			Labels: got.Labels, CreatedBy: "suite", CreatedAt: got.CreatedAt,
		}, got)
	}
}

func batchDefaults(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	bySQL, _ := r.batch(store.BatchRequest{})
	byGo, err := r.h.CreateBatch(r.ctx, store.BatchRequest{}, rowsThen(nil), nil)
	require.NoError(t, err)
	for _, id := range []task.BatchID{bySQL, byGo} {
		got := r.look(id)
		require.Equal(t, &store.BatchInfo{
			ID: id, State: store.BatchPending, OnFailure: store.OnFailureContinue, Sealed: true, CreatedAt: got.CreatedAt,
		}, got)
	}
}

func batchBad(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for name, q := range map[string]store.BatchRequest{
		"what follows a failure":   {OnFailure: "explode"},
		"a payload that is a list": {FinishType: "f", FinishPayload: raw(`[1]`)},
		"a payload that is null":   {FinishType: "f", FinishPayload: raw(`null`)},
		"a payload that is no JSON": {
			FinishType: "f", FinishPayload: raw(`{`),
		},
		"labels that are too long": {Labels: map[string]string{"tenant": strings.Repeat("x", 5000)}},
	} {
		require.Error(t, r.inOne(func(p Producer) error {
			_, err := p.CreateBatch(r.ctx, q)
			return err
		}), name)
		_, err := r.h.CreateBatch(r.ctx, q, rowsThen(nil), nil)
		var input *store.InputError
		require.ErrorAs(t, err, &input, name)
	}
	list, err := r.h.ListBatches(r.ctx, store.BatchFilter{})
	require.NoError(t, err)
	require.Empty(t, list)
}

func batchAbsent(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, id := range []task.BatchID{999_999_999, 0, -1} {
		_, err := r.h.GetBatch(r.ctx, id)
		require.ErrorIs(t, err, store.ErrNoBatch)
		err = r.h.BatchFailures(r.ctx, id, func(task.ID, string) { require.Fail(t, "a row of no batch") })
		require.ErrorIs(t, err, store.ErrNoBatch)
		_, err = r.h.SealBatch(r.ctx, id)
		require.ErrorIs(t, err, store.ErrNoBatch)
		_, err = r.h.CancelBatch(r.ctx, id, "alice")
		require.ErrorIs(t, err, store.ErrNoBatch)
		_, err = r.h.RetryBatch(r.ctx, id, "alice")
		require.ErrorIs(t, err, store.ErrNoBatch)
		_, err = r.h.RollbackBatch(r.ctx, id, "alice", true)
		require.ErrorIs(t, err, store.ErrNoBatch)

		require.ErrorContains(t, r.inOne(func(p Producer) error {
			_, err := p.SealBatch(r.ctx, id)
			return err
		}), "there is no batch")
		_, err = r.sql.CancelBatch(r.ctx, id, "alice")
		require.ErrorContains(t, err, "there is no batch")
		_, err = r.sql.RetryBatch(r.ctx, id, "alice")
		require.ErrorContains(t, err, "there is no batch")
		_, err = r.sql.RollbackBatch(r.ctx, id, "alice", false)
		require.ErrorContains(t, err, "there is no batch")
	}
	require.Empty(t, r.h.Audit(t))
}

// noRow asserts that no row is let into a batch by any way, in these words.
func (r *opsRig) noRow(id task.BatchID, words string) {
	r.t.Helper()
	before := r.look(id)
	says(r.t, r.add(id, store.EnqueueRequest{Type: kind}), words)
	_, _, err := r.Enqueue(r.ctx, store.EnqueueRequest{Type: kind, Batch: id})
	require.ErrorContains(r.t, err, words)
	var input *store.InputError
	require.ErrorAs(r.t, err, &input)
	require.NotEmpty(r.t, expect(r.t, func(t testing.TB) { r.EnqueueSQL(t, store.EnqueueRequest{Type: kind, Batch: id}) }))
	require.Equal(r.t, before, r.look(id))
}

func batchSealed(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, ids := r.batchOf(3, store.BatchRequest{})
	require.Len(t, ids, 3)
	r.fold() // an agent has seen it: a store that cannot tell transactions apart seals it only then
	require.True(t, r.look(id).Sealed)
	r.noRow(id, "batch "+number(id)+" is sealed")
	require.EqualValues(t, 3, r.inState(id, store.BatchPending).Total)
}

func batchOpen(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batchOf(1, store.BatchRequest{Open: true})
	for range 3 {
		r.fold()
		require.NoError(t, r.add(id, store.EnqueueRequest{Type: kind}))
		r.enqueue(store.EnqueueRequest{Type: kind, Batch: id}, true)
		r.EnqueueSQL(t, store.EnqueueRequest{Type: kind, Batch: id})
		r.runAll(task.StateSucceeded)
	}
	require.EqualValues(t, 10, r.inState(id, store.BatchRunning).Total)
	answer, err := r.h.SealBatch(r.ctx, id)
	require.NoError(t, err)
	require.Equal(t, store.BatchSealed, answer)
	r.noRow(id, "batch "+number(id)+" is sealed")
	r.fold()
	r.noRow(id, "batch "+number(id))
	r.inState(id, store.BatchSucceeded)
}

func batchStopped(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, open := range []bool{false, true} {
		id, _ := r.batchOf(1, store.BatchRequest{Open: open})
		_, err := r.h.CancelBatch(r.ctx, id, "alice")
		require.NoError(t, err)
		r.noRow(id, "batch "+number(id)+" was cancelled")
		r.over()
		r.noRow(id, "batch "+number(id))
		r.inState(id, store.BatchCancelled)

		id, _ = r.batchOf(1, store.BatchRequest{Open: open})
		_, err = r.h.RollbackBatch(r.ctx, id, "alice", false)
		require.NoError(t, err)
		r.noRow(id, "batch "+number(id)+" was rolled back")
		r.over()
		r.noRow(id, "batch "+number(id))
		r.inState(id, store.BatchRolledBack)
	}
}

func batchNone(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, id := range []task.BatchID{999_999_999, -1} {
		says(t, r.add(id, store.EnqueueRequest{Type: kind}), "there is no batch "+number(id))
		_, _, err := r.Enqueue(r.ctx, store.EnqueueRequest{Type: kind, Batch: id})
		require.ErrorContains(t, err, "there is no batch "+number(id))
	}
	r.nothing()
}

func batchRefused(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	sealed, _ := r.batchOf(1, store.BatchRequest{})
	open, _ := r.batchOf(1, store.BatchRequest{Open: true})
	r.fold()
	require.Error(t, r.inOne(func(p Producer) error {
		if _, err := p.Insert(r.ctx, store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: kind}); err != nil {
			return err
		}
		if _, err := p.Insert(r.ctx, store.EnqueueRequest{Type: kind, Batch: open}); err != nil {
			return err
		}
		_, err := p.Insert(r.ctx, store.EnqueueRequest{Type: kind, Batch: sealed})
		return err
	}))
	require.EqualValues(t, 1, r.inState(open, store.BatchPending).Total)
	require.EqualValues(t, 1, r.inState(sealed, store.BatchPending).Total)
	require.Len(t, r.list(store.TaskFilter{}), 2)
}

func batchTakenBack(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	open, _ := r.batchOf(1, store.BatchRequest{Open: true})
	p := r.h.Produce(t)
	id, err := p.CreateBatch(r.ctx, store.BatchRequest{Name: "never"})
	require.NoError(t, err)
	_, err = p.Insert(r.ctx, store.EnqueueRequest{Type: kind, Batch: id}, store.EnqueueRequest{Type: kind, Batch: open})
	require.NoError(t, err)
	_, err = p.SealBatch(r.ctx, open)
	require.NoError(t, err)
	require.NoError(t, p.Rollback(r.ctx))
	_, err = r.h.GetBatch(r.ctx, id)
	require.ErrorIs(t, err, store.ErrNoBatch)
	got := r.inState(open, store.BatchPending)
	require.EqualValues(t, 1, got.Total)
	require.False(t, got.Sealed)
	require.Zero(t, r.fold().Ended)
	require.NoError(t, r.add(open, store.EnqueueRequest{Type: kind}))
}

func batchStatement(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	one, _ := r.batch(store.BatchRequest{Open: true})
	two, _ := r.batch(store.BatchRequest{Open: true})
	rows := slices.Repeat([]store.EnqueueRequest{{Type: kind, Batch: one}, {Type: kind, Batch: two}, {Type: kind, Batch: one}}, 50)
	require.NoError(t, r.inOne(func(p Producer) error {
		ids, err := p.Insert(r.ctx, rows...)
		require.Len(t, ids, len(rows))
		return err
	}))
	require.EqualValues(t, 100, r.inState(one, store.BatchPending).Total)
	require.EqualValues(t, 50, r.inState(two, store.BatchPending).Total)
	r.fold()
	r.runAll(task.StateSucceeded)
	require.EqualValues(t, 100, r.inState(one, store.BatchRunning).Succeeded)
	require.EqualValues(t, 50, r.inState(two, store.BatchRunning).Succeeded)
}

func batchKey(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batch(store.BatchRequest{Open: true})
	plain := r.enqueue(store.EnqueueRequest{Type: kind, Key: "invoice-7"}, true)
	require.Equal(t, plain, r.enqueue(store.EnqueueRequest{Type: kind, Key: "invoice-7", Batch: id}, false))
	require.Equal(t, plain, r.EnqueueSQL(t, store.EnqueueRequest{Type: kind, Key: "invoice-7", Batch: id}))
	require.Error(t, r.add(id, store.EnqueueRequest{Type: kind, Key: "invoice-7"}))
	require.Zero(t, r.get(plain).Batch, "it stays what it was")
	require.Zero(t, r.inState(id, store.BatchPending).Total)
	r.enqueue(store.EnqueueRequest{Type: kind, Key: "invoice-8", Batch: id}, true)
	require.EqualValues(t, 1, r.inState(id, store.BatchPending).Total)
}

func batchFailures(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batchOf(11, store.BatchRequest{})
	rows := r.claim(wantOf(kind, task.Run, 11))
	fail := func(row task.Task, s task.State, reason string) {
		t.Helper()
		e := ended(row, task.Failed, s)
		e.Outcome.Error = reason
		r.settled(e)
	}
	fail(rows[0], task.StateFailed, "disk 1 of 7 is full")
	fail(rows[1], task.StateFailed, "no such host")
	fail(rows[2], task.StateFailed, "disk 2 of 9 is full")
	fail(rows[3], task.StateCancelled, "cancelled")
	fail(rows[4], task.StateRetryPending, "not yet")
	r.settled(finish(rows[5]))
	fail(rows[6], task.StateRollbackPending, "rolled back")
	fail(r.claimOne(kind, task.Rollback), task.StateRollbackFailed, "disk 3 of 4 is full")
	fail(rows[7], task.StateRollbackPending, "disk 4 of 4 is full")
	r.rollBackAll()
	fail(rows[8], task.StateRollbackPending, "disk 5 of 5 is full")
	require.Equal(t, store.Cancelling, r.cancel(rows[9].ID, ""))
	fail(rows[9], task.StateRollbackPending, "it was cancelled")
	r.settled(finish(rows[10]))
	r.did(became(task.StateRollbackPending), r.h.Rollback, rows[10].ID, "")
	var found []task.ID
	var failures ops.Failures
	require.NoError(t, r.h.BatchFailures(r.ctx, id, func(id task.ID, reason string) {
		found = append(found, id)
		failures.Add(id, reason)
	}))
	require.True(t, slices.IsSortedFunc(found, func(a, b task.ID) int { return cmp.Compare(b, a) }), "newest first: %v", found)
	groups := failures.Groups(10)
	require.Len(t, groups, 2)
	require.EqualValues(t, 5, groups[0].N)
	require.EqualValues(t, 1, groups[1].N)
	require.Equal(t, ops.Signature("disk 1 of 7 is full"), groups[0].Signature)
	require.Contains(t, []task.ID{rows[0].ID, rows[2].ID, rows[6].ID, rows[7].ID, rows[8].ID}, groups[0].Example)
	require.Equal(t, groups[0].Signature, ops.Signature(groups[0].Error))
	require.Equal(t, rows[1].ID, groups[1].Example)
	empty, _ := r.batch(store.BatchRequest{})
	require.NoError(t, r.h.BatchFailures(r.ctx, empty, func(id task.ID, _ string) { require.Fail(t, "no task failed", "%d", id) }))
}

func batchList(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	var all []task.BatchID
	for _, name := range []string{"one", "two", "one", "three"} {
		id, _ := r.batchOf(1, store.BatchRequest{Name: name})
		all = append(all, id)
	}
	r.settled(finish(r.claim(wantOf(kind, task.Run, 1))[0])) // that of the first
	r.fold()
	listed := func(f store.BatchFilter) []task.BatchID {
		t.Helper()
		list, err := r.h.ListBatches(r.ctx, f)
		require.NoError(t, err)
		ids := []task.BatchID{}
		for _, i := range list {
			require.Equal(t, r.look(i.ID), &i)
			ids = append(ids, i.ID)
		}
		return ids
	}
	require.Equal(t, []task.BatchID{all[3], all[2], all[1], all[0]}, listed(store.BatchFilter{}))
	require.Equal(t, []task.BatchID{all[3], all[2]}, listed(store.BatchFilter{Limit: 2}))
	require.Equal(t, []task.BatchID{all[1], all[0]}, listed(store.BatchFilter{Before: all[2]}))
	require.Equal(t, []task.BatchID{all[2], all[0]}, listed(store.BatchFilter{Name: "one"}))
	require.Equal(t, []task.BatchID{all[0]}, listed(store.BatchFilter{States: []store.BatchState{store.BatchSucceeded}}))
	require.Equal(t, []task.BatchID{all[0]}, listed(store.BatchFilter{Name: "one", Before: all[2]}))
	require.Len(t, listed(store.BatchFilter{States: []store.BatchState{store.BatchPending, store.BatchSucceeded}}), 4)
	require.Empty(t, listed(store.BatchFilter{Name: "four"}))
}
