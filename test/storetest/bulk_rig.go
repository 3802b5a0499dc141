package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// bulkStore is a store that changes all tasks that match a filter, in steps that package batch decides on. The model decides on its own.
type bulkStore interface {
	ops.Bulks
	batch.BulkStore
}

// bulkRig is a rig on such a store.
type bulkRig struct {
	*opsRig
	bulkStore
	work *batch.Bulk
}

func newBulkRig(t testing.TB, h Harness) *bulkRig {
	t.Helper()
	return bulkRigOf(newOpsRig(t, h))
}

func bulkRigOf(r *opsRig) *bulkRig {
	r.t.Helper()
	s, ok := r.h.(bulkStore)
	require.True(r.t, ok)
	return &bulkRig{r, s, batch.NewBulk(s, ops.NamedSignature)}
}

// failed is a row that has failed with that error.
func (r *bulkRig) failed(q store.EnqueueRequest, reason string) task.ID {
	r.t.Helper()
	id := r.Insert(r.t, q)[0]
	r.fails(q.Type, reason)
	return id
}

// fails has the one row of a type that is due fail.
func (r *bulkRig) fails(typ, reason string) {
	r.t.Helper()
	e := ended(r.claimOne(typ, task.Run), task.Failed, task.StateFailed)
	e.Outcome.Error = reason
	r.settled(e)
}

// starts returns the id of a change that has just been requested.
func (r *bulkRig) starts(verb string, f store.BulkFilter) int64 {
	r.t.Helper()
	id, err := ops.StartBulk(r.ctx, r, store.BulkRequest{Verb: verb, Filter: f, By: "alice", Reason: "because"})
	require.NoError(r.t, err)
	return id
}

// later waits until what happens is later than the request of a change, in the store's unit of time.
func (r *bulkRig) later(id int64) {
	r.t.Helper()
	for at := r.seen(id).RequestedAt; r.Now().Sub(at) < 2*time.Millisecond; { //nolint:revive // it waits for the clock
	}
}

// seen reads a change.
func (r *bulkRig) seen(id int64) *store.Bulk {
	r.t.Helper()
	b, err := r.GetBulk(r.ctx, id)
	require.NoError(r.t, err)
	return b
}

// takes has one step of at most rows tasks be taken.
func (r *bulkRig) takes(rows int) batch.BulkStepped {
	r.t.Helper()
	s, err := r.work.Step(r.ctx, rows)
	require.NoError(r.t, err)
	return s
}

// ends steps until a change has ended, and returns it.
func (r *bulkRig) ends(id int64, rows int) *store.Bulk {
	r.t.Helper()
	for range 1000 {
		before := r.seen(id)
		if before.EndedAt != nil {
			return before
		}
		r.takes(rows)
		require.LessOrEqual(r.t, r.seen(id).Done, before.Done+int64(rows))
	}
	require.Fail(r.t, "it never ends")
	return nil
}

// counts returns how many tasks a change would be for.
func (r *bulkRig) counts(verb string, f store.BulkFilter) int64 {
	r.t.Helper()
	p, err := ops.PreviewBulk(r.ctx, r.work, store.BulkRequest{Verb: verb, Filter: f})
	require.NoError(r.t, err)
	require.False(r.t, p.Capped)
	return p.Tasks
}

// changes asserts which rows a change is for, previewed and done, and returns it.
func (r *bulkRig) changes(verb string, f store.BulkFilter, into task.State, rows ...task.ID) *store.Bulk {
	r.t.Helper()
	require.EqualValues(r.t, len(rows), r.counts(verb, f))
	b := r.ends(r.starts(verb, f), 2)
	require.EqualValues(r.t, len(rows), b.Done)
	r.in(into, rows...)
	return b
}
