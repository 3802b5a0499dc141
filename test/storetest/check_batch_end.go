package storetest

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func batchEndChecks() []Check {
	return []Check{
		{"it ends when all of it has", endsWhenDone},
		{"it does not end before it is sealed", endsSealed},
		{"one without rows ends", endsEmpty},
		{"what sealing answers", sealAnswers},
		{"sealed where it is created", sealsAtOnce},
		{"the finish row", endReports},
		{"the finish row keeps its payload", endPayload},
		{"no row where none is wanted", endNotifiesNone},
		{"a crash ends it once", endCrash},
		{"a few at a time", endFew},
		{"a rollback of one task keeps it from ending", endRollback},
		{"an open transaction keeps it from ending", endOpen},
		{"an open transaction that is taken back does not", endOpenBack},
		{"the end wakes listeners", endWakes},
		{"rows of a batch stay until it has ended", endRetention},
		{"it stays while a row of it does", endRetentionBatch},
	}
}

func endsWhenDone(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, ids := r.batchOf(3, store.BatchRequest{})
	require.Zero(t, r.fold().Ended)
	rows := r.claim(wantOf(kind, task.Run, 2))
	r.settled(finish(rows[0]))
	require.Zero(t, r.fold().Ended)
	r.settled(ended(rows[1], task.Failed, task.StateFailed))
	require.Zero(t, r.fold().Ended)
	require.Equal(t, store.Became("cancelled"), r.cancel(ids[2], ""))
	f := r.fold()
	require.Equal(t, 1, f.Ended)
	require.Equal(t, id, f.Ends[0].ID)
	require.EqualValues(t, 3, f.Ends[0].Total)
	require.EqualValues(t, 1, f.Ends[0].Succeeded)
	require.EqualValues(t, 1, f.Ends[0].Failed)
	require.EqualValues(t, 1, f.Ends[0].Cancelled)
	got := r.inState(id, store.BatchPartiallyFailed)
	near(t, r.now(), *got.EndedAt)
	require.InDelta(t, 1, *got.Progress, 0.001)
	require.Zero(t, got.Round)
	require.False(t, got.Stopping)
	require.Empty(t, got.RequestedBy)
	require.Zero(t, r.fold().Ended)
	require.Equal(t, got, r.look(id))
}

// A task whose rollback was requested while it ran is not done when it has succeeded: its batch would end, and be opened again.
func endRollback(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, ids := r.batchOf(1, store.BatchRequest{FinishType: "finish"})
	row := r.claimOne(kind, task.Run)
	r.did(store.Cancelling, r.h.Rollback, ids[0], "alice")
	r.settled(finish(row))
	require.Zero(t, r.fold().Ended, "an operation is in progress")
	require.Equal(t, 1, r.steps())
	require.Zero(t, r.fold().Ended, "it waits for its rollback")
	r.rollBackAll()
	require.Equal(t, 1, r.fold().Ended)
	require.Zero(t, r.inState(id, store.BatchRolledBack).Round)
	require.Len(t, r.finished("finish"), 1)
}

func endsSealed(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batchOf(2, store.BatchRequest{Open: true})
	r.runAll(task.StateSucceeded)
	require.Zero(t, r.fold().Ended)
	r.inState(id, store.BatchRunning)
	require.NoError(t, r.add(id, store.EnqueueRequest{Type: kind}))
	require.NoError(t, r.inOne(func(p Producer) error {
		answer, err := p.SealBatch(r.ctx, id)
		require.Equal(t, store.BatchSealed, answer)
		return err
	}))
	require.Zero(t, r.fold().Ended)
	r.runAll(task.StateSucceeded)
	require.Equal(t, 1, r.fold().Ended)
	r.inState(id, store.BatchSucceeded)
}

func endsEmpty(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	q := store.BatchRequest{FinishType: "finish"}
	bySQL, _ := r.batch(q)
	byGo, err := r.h.CreateBatch(r.ctx, q, rowsThen(nil), nil)
	require.NoError(t, err)
	q.Open = true
	open, _ := r.batch(q)
	require.Equal(t, 2, r.fold().Ended)
	r.inState(bySQL, store.BatchSucceeded)
	r.inState(byGo, store.BatchSucceeded)
	r.inState(open, store.BatchPending)
	require.Len(t, r.finished("finish"), 2)
	_, err = r.h.SealBatch(r.ctx, open)
	require.NoError(t, err)
	require.Equal(t, 1, r.fold().Ended)
	r.inState(open, store.BatchSucceeded)
	require.Len(t, r.finished("finish"), 3)
}

func sealAnswers(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, seal := range map[string]func(id task.BatchID) (string, error){
		"Go": func(id task.BatchID) (string, error) { return r.h.SealBatch(r.ctx, id) },
		"SQL": func(id task.BatchID) (answer string, err error) {
			err = r.inOne(func(p Producer) (err error) {
				answer, err = p.SealBatch(r.ctx, id)
				return err
			})
			return answer, err
		},
	} {
		id, _ := r.batchOf(1, store.BatchRequest{Open: true})
		require.False(t, r.look(id).Sealed)
		for range 2 {
			answer, err := seal(id)
			require.NoError(t, err)
			require.Equal(t, store.BatchSealed, answer, way)
			require.True(t, r.look(id).Sealed, way)
		}
		r.runAll(task.StateFailed)
		r.fold()
		answer, err := seal(id)
		require.NoError(t, err)
		require.Equal(t, string(store.BatchFailed), answer, way)
	}
}

func sealsAtOnce(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	var id task.BatchID
	require.NoError(t, r.inOne(func(p Producer) (err error) {
		if id, err = p.CreateBatch(r.ctx, store.BatchRequest{Open: true}); err != nil {
			return err
		}
		if _, err = p.Insert(r.ctx, store.EnqueueRequest{Type: kind, Batch: id}); err != nil {
			return err
		}
		_, err = p.SealBatch(r.ctx, id)
		return err
	}))
	require.True(t, r.look(id).Sealed)
	r.fold()
	r.noRow(id, "is sealed")
	r.runAll(task.StateSucceeded)
	r.fold()
	r.inState(id, store.BatchSucceeded)
}

func endReports(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batchOf(3, store.BatchRequest{Name: "move", FinishType: "finish"})
	r.runAll(task.StateSucceeded, task.StateFailed, task.StateSucceeded)
	require.Empty(t, r.finished("finish"))
	require.Equal(t, 1, r.fold().Ended)
	rows := r.finished("finish")
	require.Len(t, rows, 1)
	got := rows[0]
	require.Equal(t, task.StatePending, got.State)
	require.Equal(t, "leasehold", got.CreatedBy)
	require.Zero(t, got.Batch, "it belongs to no batch")
	near(t, r.now(), got.RunAt)
	sameJSON(t, `{"batch":{"id":`+number(id)+`,"name":"move","state":"partially_failed","round":0,"total":3,"succeeded":2,
		"failed":1,"cancelled":0,"rolled_back":0,"rollback_failed":0}}`, got.Payload, "its payload")
	row := r.claim(store.Want{Type: "finish", Phase: task.Run, N: 5, Window: window, Policy: 7})
	require.Len(t, row, 1)
	r.settled(finish(row[0]))
	r.fold()
	require.Len(t, r.finished("finish"), 1)

	// And again when the batch has ended again.
	answer, err := r.h.RetryBatch(r.ctx, id, "alice")
	require.NoError(t, err)
	require.Equal(t, store.BatchRetrying, answer)
	r.steps()
	r.runAll(task.StateSucceeded)
	require.Equal(t, 1, r.fold().Ended)
	rows = r.finished("finish")
	require.Len(t, rows, 2)
	sameJSON(t, `{"batch":{"id":`+number(id)+`,"name":"move","state":"succeeded","round":1,"total":3,"succeeded":3,
		"failed":0,"cancelled":0,"rolled_back":0,"rollback_failed":0}}`, rows[1].Payload, "its payload")
}

func endPayload(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.batch(store.BatchRequest{FinishType: "finish", FinishPayload: raw(`{"to":"az2","n":12345678901234567890.5,"batch":"mine"}`)})
	r.fold()
	rows := r.finished("finish")
	require.Len(t, rows, 1)
	payload, ok := exact(t, rows[0].Payload).(map[string]any)
	require.True(t, ok)
	require.Equal(t, "az2", payload["to"])
	require.Equal(t, json.Number("12345678901234567890.5"), payload["n"])
	require.Len(t, payload, 3)
	notified, ok := payload["batch"].(map[string]any)
	require.True(t, ok, "the report replaces the member of the payload")
	require.Equal(t, "succeeded", notified["state"])
}

func endNotifiesNone(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.batchOf(1, store.BatchRequest{})
	r.runAll(task.StateSucceeded)
	require.Equal(t, 1, r.fold().Ended)
	require.Len(t, r.list(store.TaskFilter{}), 1)
}

func endRace(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	agents := []*opsRig{r, r.twin(), r.twin(), r.twin()}
	for n := range 5 {
		for range 3 {
			r.batchOf(2, store.BatchRequest{FinishType: "finish"})
		}
		r.runAll(task.StateSucceeded)
		var ends atomic.Int64
		together(agents, func(ctx context.Context, o *opsRig) error {
			for range 4 {
				f, err := o.h.Fold(ctx, 10)
				if err != nil {
					return err
				}
				ends.Add(int64(f.Ended))
			}
			return nil
		})
		ends.Add(int64(r.fold().Ended))
		require.EqualValues(t, 3, ends.Load(), "each ends once")
		require.Len(t, r.finished("finish"), 3*(n+1))
	}
}

func endCrash(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	hits, n := 0, 0
	for _, point := range r.h.BatchFailpoints() {
		id, _ := r.batchOf(1, store.BatchRequest{FinishType: "finish"})
		n++
		r.runAll(task.StateSucceeded)
		if r.crashing(point, func() error { _, err := r.h.Fold(r.ctx, 10); return err }) {
			hits++
		}
		require.LessOrEqual(t, len(r.finished("finish")), n, point)
		r.fold()
		r.inState(id, store.BatchSucceeded)
		require.Len(t, r.finished("finish"), n, point)
	}
	require.Positive(t, hits, "a Fold comes by some point")
}

func endFew(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	open, _ := r.batchOf(1, store.BatchRequest{Open: true})
	waits, _ := r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind, In: farOff})
	for range 4 {
		r.batchOf(1, store.BatchRequest{FinishType: "finish"})
	}
	r.runAll(task.StateSucceeded)
	ends := 0
	for range 30 {
		f, err := r.h.Fold(r.ctx, 1)
		require.NoError(t, err)
		require.LessOrEqual(t, f.Batches, 1)
		require.LessOrEqual(t, f.Ended, 1)
		ends += f.Ended
	}
	require.Equal(t, 4, ends, "those that cannot end keep no other")
	require.Len(t, r.finished("finish"), 4)
	r.inState(open, store.BatchRunning)
	r.inState(waits, store.BatchPending)
}

func endOpen(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batchOf(1, store.BatchRequest{Open: true, FinishType: "finish"})
	r.runAll(task.StateSucceeded)
	locks := r.keepsRows()
	p := r.h.Produce(t)
	_, err := p.Insert(r.ctx, store.EnqueueRequest{Type: kind, Batch: id})
	require.NoError(t, err)
	if locks { // on the other stores no other can write while the transaction is open
		answer, err := r.h.SealBatch(r.ctx, id)
		require.NoError(t, err)
		require.Equal(t, store.BatchSealed, answer)
		require.Zero(t, r.fold().Ended)
		require.EqualValues(t, 1, r.inState(id, store.BatchRunning).Total, "the row is not visible")
		require.Zero(t, r.twin().fold().Ended)
	}
	require.NoError(t, p.Commit(r.ctx))
	_, err = r.h.SealBatch(r.ctx, id)
	require.NoError(t, err)
	require.Zero(t, r.fold().Ended)
	require.EqualValues(t, 2, r.inState(id, store.BatchRunning).Total)
	require.Empty(t, r.finished("finish"))
	r.runAll(task.StateSucceeded)
	require.Equal(t, 1, r.fold().Ended)
	require.Len(t, r.finished("finish"), 1)
	r.inState(id, store.BatchSucceeded)
}

func endOpenBack(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batchOf(1, store.BatchRequest{Open: true})
	r.runAll(task.StateSucceeded)
	p := r.h.Produce(t)
	_, err := p.Insert(r.ctx, store.EnqueueRequest{Type: kind, Batch: id})
	require.NoError(t, err)
	require.NoError(t, p.Rollback(r.ctx))
	_, err = r.h.SealBatch(r.ctx, id)
	require.NoError(t, err)
	require.Equal(t, 1, r.fold().Ended)
	require.EqualValues(t, 1, r.inState(id, store.BatchSucceeded).Total)
}

func endWakes(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	o := r.twin()
	require.NoError(t, r.Idle(r.ctx, r.session, true))
	news, stop := r.listen()
	defer stop()
	r.await(news, store.Due)
	o.batchOf(1, store.BatchRequest{FinishType: "finish"})
	o.runAll(task.StateSucceeded)
	drain(news)
	require.Equal(t, 1, o.fold().Ended)
	r.await(news, store.Due)
}

func endRetention(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, ids := r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: kind, In: 30 * day})
	plain := r.insert(1)[0]
	r.runAll(task.StateSucceeded)
	r.fold()
	r.Advance(t, 20*day)
	r.present()
	r.maintain(7 * day)
	r.gone(plain)
	require.Equal(t, task.StateSucceeded, r.state(ids[0]), "its batch has not ended")
	r.inState(id, store.BatchRunning)
	r.Advance(t, 20*day)
	r.present()
	r.runAll(task.StateSucceeded)
	r.fold()
	r.maintain(7 * day)
	r.gone(ids[0])
	got := r.look(id)
	require.Equal(t, store.BatchSucceeded, got.State)
	require.EqualValues(t, 2, got.Total, "what has gone is still counted")
	require.EqualValues(t, 2, got.Succeeded)
}

func endRetentionBatch(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	empty, _ := r.batch(store.BatchRequest{})
	id, ids := r.batchOf(2, store.BatchRequest{})
	live, _ := r.batchOf(1, store.BatchRequest{Open: true})
	rows := r.claim(wantOf(kind, task.Run, 2))
	r.settled(finish(rows[0]), finish(rows[1]))
	r.fold()
	r.Advance(t, 3*day)
	r.maintain(7 * day)
	r.look(empty)
	r.inState(id, store.BatchSucceeded)
	r.Advance(t, 20*day)
	_, err := r.Maintain(r.ctx, 7*day)
	require.NoError(t, err, "one call is enough for so few")
	for _, row := range ids {
		r.gone(row)
	}
	for _, b := range []task.BatchID{empty, id} {
		_, err := r.h.GetBatch(r.ctx, b)
		require.ErrorIs(t, err, store.ErrNoBatch)
	}
	require.EqualValues(t, 1, r.look(live).Total)
	list, err := r.h.ListBatches(r.ctx, store.BatchFilter{})
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(list, func(i store.BatchInfo) bool { return i.ID == live }))
	require.Len(t, list, 1)
}
