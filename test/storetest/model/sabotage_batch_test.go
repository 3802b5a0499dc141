package model_test

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// during changes every batch before a call, and back after it.
func during(call string, set, back func(b *model.Batch)) wrong {
	each := func(f func(*model.Batch)) func(*storetest.OnModel, string, task.ID) {
		return func(m *storetest.OnModel, does string, _ task.ID) {
			if does != call || f == nil {
				return
			}
			m.TamperBatches(func(batches map[task.BatchID]*model.Batch, _ []*model.Operation, _ *[]model.Audit) {
				for b := range maps.Values(batches) {
					f(b)
				}
			})
		}
	}
	return func(m *storetest.OnModel) storetest.Harness { return wrongOps{m, each(set), each(back)} }
}

// rowsAfter changes every live row after a call.
func rowsAfter(call string, f func(r *model.Row)) wrong {
	return func(m *storetest.OnModel) storetest.Harness {
		return wrongOps{m, nil, func(m *storetest.OnModel, did string, _ task.ID) {
			if did == call {
				m.Each(f)
			}
		}}
	}
}

// unstopped lets rows of batches start that are stopped.
func unstopped(m *storetest.OnModel) storetest.Harness {
	var stopped []*model.Batch
	return during("claim", func(b *model.Batch) {
		if b.Stopping {
			b.Stopping = false
			stopped = append(stopped, b)
		}
	}, func(*model.Batch) {
		for _, b := range stopped {
			b.Stopping = true
		}
		stopped = nil
	})(m)
}

// lateCancels names no row that is not marked.
type lateCancels struct{ *storetest.OnModel }

func (b lateCancels) Cancels(ctx context.Context, s task.Session) ([]store.Cancel, error) {
	list, err := b.OnModel.Cancels(ctx, s)
	return slices.DeleteFunc(list, func(c store.Cancel) bool { return !c.Requested }), err
}

func batchSabotages() []sabotage {
	return slices.Concat([]sabotage{
		{"counts wrong", func(m *storetest.OnModel) storetest.Harness { return miscounting{m} }, "batch/it counts every settlement"},
		{"lets rows into what is sealed", func(m *storetest.OnModel) storetest.Harness { return lax{m} },
			"batch/rows only in the transaction that creates it"},
		{"ends what is not sealed", during("fold", func(b *model.Batch) { b.Sealed = true }, nil),
			"batch/it does not end before it is sealed"},
		{"ends what is being inserted into", during("fold", (*model.Batch).Unwatched, nil),
			"batch/an open transaction keeps it from ending"},
		{"reports the end twice", func(m *storetest.OnModel) storetest.Harness { return gossip{m} },
			"batch/the finish row"},
		{"reports the end twice when many ask", func(m *storetest.OnModel) storetest.Harness { return gossip{m} },
			"batch_races/one agent ends it"},
		{"reports the end twice after a death", func(m *storetest.OnModel) storetest.Harness { return gossip{m} },
			"batch_races/killed between the last settlement and the finish row"},
		{"removes rows of what has not ended", func(m *storetest.OnModel) storetest.Harness {
			return during("maintain", func(b *model.Batch) { b.EndedAt = time.Unix(1, 0) }, nil)(m)
		}, "batch/rows of a batch stay until it has ended"},
		{"counts no failures", during("fold", func(b *model.Batch) { b.Failures = 0 }, nil), "batch/it counts failures"},
	}, bulkSabotages(), raceSabotages())
}

func bulkSabotages() []sabotage {
	return []sabotage{
		{"starts what is cancelled", unstopped, "batch_ops/nothing starts once a cancel has committed"},
		{"stops nothing that runs", rowsAfter("step", func(r *model.Row) { r.CancelRequested = time.Time{} }),
			"batch_ops/cancel cancels what waits and stops what runs"},
		{"returns rows to stop only when they are marked", func(m *storetest.OnModel) storetest.Harness { return lateCancels{m} },
			"batch_ops/a session learns at once what is to stop"},
		{"takes long steps", func(m *storetest.OnModel) storetest.Harness { return striding{m} }, "batch_ops/cancel in bounded steps"},
		{"rolls back the oldest first", rowsAfter("step", func(r *model.Row) { r.RunAt = r.CreatedAt }),
			"batch_ops/what was started last is rolled back first"},
		{"rolls back what is left without a word", func(m *storetest.OnModel) storetest.Harness { return forcing{m} },
			"batch_ops/rollback past retention"},
		{"acts on old failures", during("fold", func(b *model.Batch) { b.FailuresSeen = 0 }, nil),
			"batch_ops/on failure in a new round"},
		{"acts on no failure", during("fold", func(b *model.Batch) { b.FailuresSeen = b.Failures }, nil),
			"batch_ops/on failure, cancel"},
		{"ends before it acts", during("fold", func(b *model.Batch) { b.FailuresSeen = b.Failures }, nil),
			"batch_ops/on failure of the last"},
		{"acts whatever an operator wants", during("fold", func(b *model.Batch) { b.Requested = "" }, nil),
			"batch_ops/on failure, and an operator before"},
		{"begins no round", during("retry batch", nil, func(b *model.Batch) { b.Round = 0 }), "batch_ops/retry revives what failed"},
		{"retries what was cancelled", func(m *storetest.OnModel) storetest.Harness {
			return wrongOps{m, func(m *storetest.OnModel, does string, _ task.ID) {
				if does == "retry batch" {
					m.Tamper(func(_, archive map[task.ID]*model.Row, _ map[task.ID][]model.Attempt) {
						for _, r := range archive {
							if r.State == task.StateCancelled {
								r.State = task.StateFailed
							}
						}
					})
				}
			}, nil}
		}, "batch_ops/retry revives what failed"},
		{"carries on nothing but the oldest batch", oneAtATime, "batch_ops/operations that wait keep no other"},
	}
}

func raceSabotages() []sabotage {
	return []sabotage{
		{"starts what comes late", unstopped, "batch_races/an open transaction inserts while its batch is cancelled"},
		{"leaves what comes late", during("step", (*model.Batch).Unwatched, nil),
			"batch_races/an open transaction inserts while its batch is cancelled"},
		{"leaves rollbacks of the dead", func(m *storetest.OnModel) storetest.Harness { return deserting{m} },
			"batch_races/killed in a rollback"},
		{"removes history of what lives", func(m *storetest.OnModel) storetest.Harness {
			return wrongOps{m, nil, func(m *storetest.OnModel, did string, _ task.ID) {
				if did == "maintain" {
					m.Tamper(func(_, _ map[task.ID]*model.Row, attempts map[task.ID][]model.Attempt) { clear(attempts) })
				}
			}}
		}, "batch_races/retry of a row whose retention is nearly over"},
		{"opens it for each who asks", during("retry batch", nil, func(b *model.Batch) { b.Round++ }),
			"batch_races/two operators with opposite requests of what has ended"},
		{"cancels what succeeded", rowAfter("cancel", func(r *model.Row) {
			if r.State == task.StateSucceeded {
				r.State = task.StateCancelled
			}
		}), "cancel/when it has ended"},
	}
}

// miscounting sees one row too many.
type miscounting struct{ *storetest.OnModel }

func (b miscounting) GetBatch(ctx context.Context, id task.BatchID) (*store.BatchInfo, error) {
	i, err := b.OnModel.GetBatch(ctx, id)
	if err == nil && i.Succeeded > 0 {
		i.Succeeded++
	}
	return i, err
}

// lax enqueues into whatever batch.
type lax struct{ *storetest.OnModel }

func (b lax) Enqueue(ctx context.Context, r store.EnqueueRequest) (task.ID, store.Enqueued, error) {
	b.TamperBatches(func(batches map[task.BatchID]*model.Batch, _ []*model.Operation, _ *[]model.Audit) {
		for _, of := range batches {
			of.Sealed = false
		}
	})
	return b.OnModel.Enqueue(ctx, r)
}

// gossip inserts a second finish task for each batch that ends.
type gossip struct{ *storetest.OnModel }

func (b gossip) Fold(ctx context.Context, limit int) (store.Folded, error) {
	f, err := b.OnModel.Fold(ctx, limit)
	for range f.Ended {
		if _, _, err := b.Enqueue(ctx, store.EnqueueRequest{Type: "finish"}); err != nil {
			return f, err
		}
	}
	return f, err
}

// striding takes steps of any length.
type striding struct{ *storetest.OnModel }

func (b striding) Step(ctx context.Context, rows int) (store.Stepped, error) {
	return b.OnModel.Step(ctx, 10*rows)
}

// forcing always rolls back with force.
type forcing struct{ *storetest.OnModel }

func (b forcing) RollbackBatch(ctx context.Context, id task.BatchID, by string, _ bool) (string, error) {
	return b.OnModel.RollbackBatch(ctx, id, by, true)
}

// deserting sweeps runs only.
type deserting struct{ *storetest.OnModel }

func (b deserting) Sweep(
	ctx context.Context, s task.Session, limit int, reapFor time.Duration, view func() store.View,
) ([]store.Reaped, error) {
	reaped, err := b.OnModel.Sweep(ctx, s, limit, reapFor, view)
	return slices.DeleteFunc(reaped, func(s store.Reaped) bool { return s.State == task.StateRollbackRunning }), err
}
