package batch_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// doing is an executor.
type doing func(l *lease.Lease) task.Outcome

func (d doing) RunMany(ls []*lease.Lease, t *task.Type, ended func(int, task.Outcome)) {
	for i, l := range ls {
		ended(i, d.Run(l, t))
	}
}

func (d doing) Run(l *lease.Lease, _ *task.Type) task.Outcome {
	l.Start()
	return d(l)
}

// agents run n agents, each with its loop for batches, on one store in memory. end drains them.
func agents(t *testing.T, db *model.Store, n int, do doing) (end func()) {
	t.Helper()
	policy := task.Policy{
		Timeout: 20 * time.Second, Stop: task.StopLength(task.DefaultGrace),
		Retry: task.Retry{Backoff: task.Exponential, Min: time.Second, Max: time.Minute, On: task.DefaultOn(), MaxDeferrals: 100},
	}
	back := policy
	policy.Rollback = &task.RollbackPolicy{Timeout: back.Timeout, Stop: back.Stop, Retry: back.Retry}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel) // where the test fails
	var engined, over sync.WaitGroup
	var engines []*poll.Engine
	for range n {
		metrics := telemetry.NewMetrics(prometheus.NewRegistry())
		log := slog.New(slog.DiscardHandler)
		loop := batch.New(batch.Options{Work: db, Poll: time.Second, Log: log, Metrics: metrics})
		engine := poll.New(poll.Options{
			Store: db, Leases: db, Executor: do, Agent: store.Agent{Name: "rig", Presence: 15 * time.Second},
			Declarations: poll.Declarations{
				Types: []*task.Type{{Name: "a", Policy: policy, Rollback: &task.Webhook{}}}, Workers: 4, Poll: time.Second, Drain: 20 * time.Second,
			},
			Clock: lease.RunClock(), Log: log, Metrics: metrics, Batch: loop.Note,
		})
		engines = append(engines, engine)
		engined.Go(func() { require.NoError(t, engine.Run(ctx)) })
		over.Go(func() { require.NoError(t, loop.Run(ctx)) })
	}
	return func() {
		for _, e := range engines {
			e.Drain()
		}
		engined.Wait()
		cancel()
		over.Wait()
	}
}

// create creates a batch of n tasks.
func create(t *testing.T, db *model.Store, n int, b store.BatchRequest) task.BatchID {
	t.Helper()
	id, err := db.CreateBatch(t.Context(), b, func(yield func(store.EnqueueRequest, error) bool) {
		for range n {
			if !yield(store.EnqueueRequest{Type: "a"}, nil) {
				return
			}
		}
	}, nil)
	require.NoError(t, err)
	return id
}

// ended waits for the end of a batch.
func ended(t *testing.T, store *model.Store, id task.BatchID) *store.BatchInfo {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for late := time.After(time.Minute); ; {
		b, err := store.GetBatch(t.Context(), id)
		require.NoError(t, err)
		if b.EndedAt != nil {
			return b
		}
		select {
		case <-look.C:
		case <-late:
			require.FailNow(t, "the batch does not end", "%+v", b)
		}
	}
}

// last is when the last task of a batch ended.
func last(t *testing.T, db *model.Store, id task.BatchID) time.Time {
	t.Helper()
	rows, err := db.List(t.Context(), store.TaskFilter{Batch: id, Limit: 1000})
	require.NoError(t, err)
	var at time.Time
	for _, r := range rows {
		if r.FinishedAt != nil && r.FinishedAt.After(at) {
			at = *r.FinishedAt
		}
	}
	return at
}

// soon is how long after its last task a batch ends at most.
const soon = 300 * time.Millisecond

// outcome is what each attempt comes to, after a moment.
func outcome(f func(l *lease.Lease) task.Outcome) doing {
	return func(l *lease.Lease) task.Outcome {
		timer := time.NewTimer(50 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			return f(l)
		case <-l.Context().Done():
			return l.Cause().Outcome()
		}
	}
}

func TestABatchEndsSoonAfterItsLastTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		end := agents(t, db, 4, outcome(func(*lease.Lease) task.Outcome { return task.Outcome{Verdict: task.Succeeded} }))
		for range 5 {
			id := create(t, db, 100, store.BatchRequest{FinishType: "finish"})
			b := ended(t, db, id)
			require.Equal(t, store.BatchSucceeded, b.State)
			require.LessOrEqual(t, b.EndedAt.Sub(last(t, db, id)), soon)
		}
		finishes, err := db.List(t.Context(), store.TaskFilter{Type: "finish", Limit: 100})
		require.NoError(t, err)
		require.Len(t, finishes, 5)
		end()
	})
}

func TestWhatAFailureAsksForFollowsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		var failed sync.Once
		end := agents(t, db, 2, outcome(func(l *lease.Lease) task.Outcome {
			out := task.Outcome{Verdict: task.Succeeded}
			if l.Task().ID > 50 && l.Task().Phase() == task.Run {
				failed.Do(func() { out = task.Outcome{Verdict: task.Rejected, Error: "no room"} })
			}
			return out
		}))
		id := create(t, db, 300, store.BatchRequest{OnFailure: store.OnFailureRollback})
		b := ended(t, db, id)
		require.Equal(t, store.BatchRolledBack, b.State)
		require.Equal(t, int64(300), b.RolledBack+b.Cancelled)
		require.Positive(t, b.RolledBack)
		require.LessOrEqual(t, b.EndedAt.Sub(last(t, db, id)), soon)
		require.Less(t, b.RolledBack, int64(120), "the others were cancelled soon after")
		end()
	})
}

func TestTheLastAgentEndsTheBatchBeforeItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := model.New(time.Now)
		end := agents(t, db, 1, outcome(func(*lease.Lease) task.Outcome { return task.Outcome{Verdict: task.Succeeded} }))
		id := create(t, db, 1, store.BatchRequest{})
		timer := time.NewTimer(30 * time.Millisecond)
		<-timer.C
		b, err := db.GetBatch(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, int64(1), b.Running)
		end() // which lets it finish
		b, err = db.GetBatch(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, store.BatchSucceeded, b.State, "%+v", b)
	})
}
