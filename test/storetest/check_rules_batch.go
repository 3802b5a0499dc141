package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ruleBatchFinds compares what a retry or a rollback of a batch that has ended finds in it: by SQL, whose answer says whether an
// operation begins, and by internal/batch, which carries it out. Each batch has one task.
func ruleBatchFinds(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	operations := map[string]struct {
		finds   func(*store.BatchTask) bool
		answer  string
		becomes task.State
		ended   func(r *opsRig, typ string) store.Settlement
	}{
		"retry": {batch.HasFailed, store.BatchRetrying, task.StatePending, func(r *opsRig, typ string) store.Settlement {
			return finish(r.claimOne(typ, task.Run))
		}},
		"rollback": {
			batch.CanRollBack, string(store.BatchRollingBack), task.StateRollbackPending, func(r *opsRig, typ string) store.Settlement {
				return ended(r.claimOne(typ, task.Rollback), task.Succeeded, task.StateRolledBack)
			},
		},
	}
	n := map[bool]int{}
	for name, end := range r.ends() {
		for _, typ := range []string{kind, oneWayKind} {
			for verb, o := range operations {
				for way, do := range r.bulks(verb) {
					id, _ := r.batch(store.BatchRequest{Open: true})
					row := end(store.EnqueueRequest{Type: typ, Batch: id})
					_, err := h.SealBatch(r.ctx, id)
					require.NoError(t, err)
					require.Equal(t, 1, r.fold().Ended)
					before := r.get(row)
					about := fmt.Sprintf("%s by %s of %s, %s", verb, way, typ, name)
					finds := o.finds(&store.BatchTask{
						State: before.State, Cause: before.Cause, EverStarted: before.EverStarted, TypeRollback: typ == kind,
					})
					n[finds]++
					got, err := do(r.ctx, id, "alice")
					require.NoError(t, err, about)
					if !finds {
						require.Equal(t, string(r.look(id).State), got, about)
						require.Zero(t, r.steps(), about)
						require.Equal(t, before, r.get(row), about)
						continue
					}
					require.Equal(t, o.answer, got, about)
					require.Equal(t, 1, r.steps(), about)
					r.in(o.becomes, row)
					r.settled(o.ended(r, typ)) // it is out of the way
					r.over()
				}
			}
		}
	}
	require.Greater(t, n[true], 10)
	require.Greater(t, n[false], 10)
}

// ends are the ways in which a task can end, as far as a retry or a rollback of its batch depends on that.
func (r *opsRig) ends() map[string]func(store.EnqueueRequest) task.ID {
	all := map[string]func(store.EnqueueRequest) task.ID{}
	for _, s := range plainStates() {
		for _, everStarted := range []bool{false, true} {
			if s.Finished() {
				all[fmt.Sprintf("%s, ever started: %v", s, everStarted)] = func(q store.EnqueueRequest) task.ID { return r.rowIn(q, s, everStarted) }
			}
		}
	}
	for _, v := range []task.Verdict{task.Succeeded, task.Cancelled, task.Rejected, task.Deferred} {
		all[fmt.Sprintf("rolled back after %s", v)] = func(q store.EnqueueRequest) task.ID {
			id := r.Insert(r.t, q)[0]
			r.settled(ended(r.claimOne(q.Type, task.Run), v, task.StateRollbackPending))
			r.settled(ended(r.claimOne(q.Type, task.Rollback), task.Succeeded, task.StateRolledBack))
			return id
		}
	}
	return all
}
