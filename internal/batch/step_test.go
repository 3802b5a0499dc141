package batch

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// shelf is a store with one operation, whose looks and answers a test gives. It applies a step only to the version that it has.
type shelf struct {
	store.Operation
	other    *store.Operation // behind it; nil: none
	one      *store.BatchTask
	stops    store.Unstopped
	finished []store.BatchTask // in the order of the cursor's ids, each looked at from behind it
	answer   func(*store.Step) (store.StepResult, error)
	steps    []store.Step
	looks    int // at finished tasks

	batches []store.SummedBatch
	applied []task.BatchID
	folds   [][]store.Conclusion
	lost    error        // of folds
	refused task.BatchID // a fold that has it fails
}

var errLost, errRefused = errors.New("the reply is lost"), errors.New("the finish task is refused")

func (s *shelf) SumBatches(context.Context, int) ([]store.SummedBatch, error) {
	return s.batches, s.lost
}

func (s *shelf) ApplyFold(_ context.Context, list []store.Conclusion) ([]task.BatchID, error) {
	s.folds = append(s.folds, list)
	var applied []task.BatchID
	for _, c := range list {
		if c.Batch.ID == s.refused {
			return nil, errRefused
		}
		if slices.Contains(s.applied, c.Batch.ID) {
			applied = append(applied, c.Batch.ID)
		}
	}
	return applied, s.lost
}

func (s *shelf) Operations(_ context.Context, after int64, _ int) (list []store.Operation, open bool, err error) {
	if s.ID > after {
		list = append(list, s.Operation)
	}
	if s.other != nil && s.other.ID > after {
		list = append(list, *s.other)
	}
	return list, true, nil
}

func (s *shelf) BatchTask(context.Context, task.ID) (*store.BatchTask, error) { return s.one, nil }

func (s *shelf) Unstopped(_ context.Context, _ task.BatchID, after task.ID, limit int) (*store.Unstopped, error) {
	u := s.stops
	u.Waiting = behind(u.Waiting, after, limit)
	return &u, nil
}

func (s *shelf) Failed(_ context.Context, _ task.BatchID, after task.ID, limit int) ([]store.BatchTask, error) {
	return behind(s.finished, after, limit), nil
}

func (s *shelf) Finished(_ context.Context, _ task.BatchID, after store.Cursor, limit int) ([]store.BatchTask, error) {
	s.looks++
	return behind(s.finished, after.ID, limit), nil
}

func behind(list []store.BatchTask, after task.ID, limit int) (page []store.BatchTask) {
	for _, t := range list {
		if t.ID > after && len(page) < limit {
			page = append(page, t)
		}
	}
	return page
}

func (s *shelf) ApplyStep(_ context.Context, step *store.Step) (store.StepResult, error) {
	kept := *step
	o := *step.Operation
	kept.Operation = &o
	s.steps = append(s.steps, kept)
	all := len(step.Ask) + len(step.Cancel) + len(step.Revive)
	r := store.StepResult{Applied: true, Rows: all, Stopped: o.Stopped || step.Stops, Ended: step.Ends}
	if s.answer == nil {
		return r, nil
	}
	return s.answer(step)
}

func stepOf(t *testing.T, s *shelf, rows int) store.Stepped {
	t.Helper()
	did, err := NewEngine(s).Step(t.Context(), rows)
	require.NoError(t, err)
	return did
}

func tasks(state task.State, ids ...task.ID) (list []store.BatchTask) {
	for _, id := range ids {
		list = append(list, store.BatchTask{ID: id, Fence: 2, State: state, EverStarted: true, OwnRollback: true})
	}
	return list
}

func TestWhatBecomesOfAWaitingTask(t *testing.T) {
	for _, c := range []struct {
		verb              string
		started, own, typ bool
		rollsBack         bool
	}{
		{store.VerbCancel, true, true, false, true},
		{store.VerbCancel, true, false, true, false}, // a cancel goes by the policy of the last attempt
		{store.VerbRollback, true, false, true, true},
		{store.VerbRollback, true, false, false, false},
		{store.VerbRollback, false, true, true, false}, // nothing was done
	} {
		got := cancelled(&store.Operation{Verb: c.verb}, &store.BatchTask{EverStarted: c.started, OwnRollback: c.own, TypeRollback: c.typ})
		require.Equal(t, c.rollsBack, got.RollBack, "%+v", c)
	}
}

func TestWhatARetryRevives(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	o := &store.Operation{RequestedAt: at}
	for _, c := range []struct {
		state    task.State
		cause    task.Verdict
		finished time.Time
		want     bool
	}{
		{task.StateFailed, "", at, true},
		{task.StateFailed, "", at.Add(time.Millisecond), false}, // it was retried, and has failed again
		{task.StateRolledBack, task.Failed, at, true},
		{task.StateRolledBack, task.Succeeded, at, false},
		{task.StateRolledBack, task.Cancelled, at, false},
		{task.StateRollbackFailed, task.Failed, at, false},
		{task.StateSucceeded, "", at, false},
	} {
		require.Equal(t, c.want, canRetry(o, &store.BatchTask{State: c.state, Cause: c.cause, Finished: c.finished}), "%+v", c)
	}
}

// The rollbacks of a batch are due in the order in which its tasks are taken, within a second before the request.
func TestRollbacksAreDueInOrder(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	o := &store.Operation{RequestedAt: at}
	for _, goal := range []int64{1, 3, 3000, 1_000_000, 5_000_000} {
		last := time.Time{}
		for n := int64(0); n < goal; n += max(goal/1000, 1) {
			d := due(o, goal, n)
			require.True(t, d.After(last), "%d of %d", n, goal)
			require.False(t, d.Before(at.Add(-time.Second)))
			last = d
		}
		require.GreaterOrEqual(t, due(o, goal, 1).Sub(due(o, goal, 0)), min(time.Microsecond, time.Duration(max(goal, 1))*time.Second))
		require.Equal(t, due(o, goal, goal), due(o, goal, 2*goal+7), "another pass")
		if goal <= 1_000_000 {
			require.False(t, due(o, goal, goal).After(at), "none is due later")
		}
	}
	require.Equal(t, due(o, 3000, 0).Truncate(time.Millisecond), due(o, 3000, 2).Truncate(time.Millisecond))
	require.NotEqual(t, due(o, 3000, 2).Truncate(time.Millisecond), due(o, 3000, 3).Truncate(time.Millisecond))
}

func TestARollbackStopsTheBatchFirst(t *testing.T) {
	s := &shelf{Operation: store.Operation{ID: 1, Verb: store.VerbRollback, Batch: 7, RequestedBy: "alice"}}
	s.stops = store.Unstopped{Running: tasks(task.StateRunning, 1), Waiting: tasks(task.StatePending, 2, 3), Left: 3, Total: 5}
	s.finished = tasks(task.StateSucceeded, 4, 5)
	did := stepOf(t, s, 2)
	require.Equal(t, 2, did.Rows)
	require.False(t, did.Ended)
	require.Len(t, s.steps[0].Ask, 1)
	require.Equal(t, "batch 7 (rollback by alice)", s.steps[0].By)
	require.False(t, s.steps[0].Stops)
	require.Equal(t, task.ID(2), s.steps[0].Progress.After.ID)

	s.stops = store.Unstopped{Left: 1} // it runs, and knows
	require.Equal(t, store.Stepped{Found: true}, stepOf(t, s, 2))
	require.Len(t, s.steps, 1, "nothing is written while it waits")

	s.stops = store.Unstopped{Total: 5}
	did = stepOf(t, s, 2)
	require.Equal(t, 2, did.Rows, "it stops, and goes on in the same call")
	require.Len(t, s.steps, 3)
	require.True(t, s.steps[1].Stops)
	require.False(t, s.steps[1].Ends)
	require.Len(t, s.steps[2].Revive, 2)
	require.EqualValues(t, 5, s.steps[2].Progress.Goal)
	require.Equal(t, int64(1), s.steps[2].Operation.Version, "of the step before")
	require.True(t, s.steps[2].Ends, "there are no more")
}

// An open transaction that inserts keeps the batch from having stopped.
func TestABatchThatHasNotStopped(t *testing.T) {
	s := &shelf{Operation: store.Operation{ID: 1, Verb: store.VerbCancel, Batch: 7}}
	s.answer = func(*store.Step) (store.StepResult, error) { return store.StepResult{Applied: true}, nil }
	require.Equal(t, store.Stepped{Found: true}, stepOf(t, s, 10))
	require.Len(t, s.steps, 1)
	require.True(t, s.steps[0].Stops)
	require.True(t, s.steps[0].Ends)
}

// What another agent carries on is left to it.
func TestAnotherAgentHasTheOperation(t *testing.T) {
	s := &shelf{Operation: store.Operation{ID: 1, Verb: store.VerbRetry, Batch: 7}, finished: tasks(task.StateFailed, 1)}
	s.other = &store.Operation{ID: 2, Verb: store.VerbRetry, Batch: 8}
	s.answer = func(step *store.Step) (store.StepResult, error) {
		return store.StepResult{Applied: step.Operation.ID == 2, Rows: 1, Ended: true}, nil
	}
	did := stepOf(t, s, 10)
	require.True(t, did.Ended)
	require.Equal(t, task.BatchID(8), did.Batch)
	s.answer = func(*store.Step) (store.StepResult, error) { return store.StepResult{}, errLost }
	_, err := NewEngine(s).Step(t.Context(), 10)
	require.ErrorIs(t, err, errLost)
}

// Tasks that were locked take another pass, which counts what is refused anew; the operation does not end before it.
func TestAnotherPass(t *testing.T) {
	s := &shelf{Operation: store.Operation{ID: 1, Verb: store.VerbRetry, Batch: 7}, finished: tasks(task.StateFailed, 1, 2)}
	s.answer = func(*store.Step) (store.StepResult, error) { return store.StepResult{Applied: true, Missed: true}, nil }
	require.Zero(t, stepOf(t, s, 10).Rows)
	require.Len(t, s.steps, 1, "locked rows are not tried again at once")
	require.True(t, s.steps[0].Ends, "if none is missed")

	s.After.ID, s.Missed, s.Refused = 2, true, 1
	s.answer = nil
	did := stepOf(t, s, 10)
	require.True(t, did.Ended)
	require.Equal(t, 2, did.Rows)
	require.Zero(t, s.steps[1].Progress.Refused)
	require.False(t, s.steps[1].Progress.Missed)
}

func TestTheRollbackOfATaskThatRan(t *testing.T) {
	s := &shelf{Operation: store.Operation{ID: 1, Verb: store.VerbRollback, Batch: 7, Task: 3, RequestedBy: "alice"}}
	one := func(state task.State) *store.BatchTask { return &tasks(state, 3)[0] }
	for state, want := range map[task.State]store.Step{
		task.StatePending:         {Cancel: []store.Cancellation{{BatchTask: *one(task.StatePending), RollBack: true}}},
		task.StateSucceeded:       {Revive: []store.Revival{{BatchTask: *one(task.StateSucceeded)}}, Reopens: true},
		task.StateRollbackPending: {},
		task.StateRolledBack:      {},
	} {
		s.one, s.steps = one(state), nil
		require.True(t, stepOf(t, s, 10).Ended, state)
		want.Ends, want.By, want.Operation = true, "alice", s.steps[0].Operation
		require.Equal(t, []store.Step{want}, s.steps, state)
	}
	s.one, s.steps = one(task.StateRunning), nil
	require.False(t, stepOf(t, s, 10).Ended)
	s.one = nil // past its retention
	require.True(t, stepOf(t, s, 10).Ended)
}

// A step that may change few tasks looks at no more pages than any other: it must end before its call's timeout.
func TestFewTasksAtOnceTakeNoMoreLooks(t *testing.T) {
	for _, rows := range []int{1000, 10} {
		s := &shelf{Operation: store.Operation{
			ID: 1, Verb: store.VerbRollback, Batch: 7, Progress: store.Progress{Stopped: true, Goal: 100_000},
		}}
		for id := range task.ID(100_000) {
			s.finished = append(s.finished, store.BatchTask{ID: id + 1, State: task.StateSucceeded, EverStarted: true})
		}
		s.finished = append(s.finished, tasks(task.StateSucceeded, 100_001, 100_002)...)
		require.Equal(t, 2, stepOf(t, s, rows).Rows)
		require.LessOrEqual(t, s.looks, 110, rows)
	}
}

// A page of which only some tasks may be changed is taken in parts.
func TestAPageIsTakenInParts(t *testing.T) {
	s := &shelf{Operation: store.Operation{ID: 1, Verb: store.VerbRetry, Batch: 7}}
	s.finished = tasks(task.StateFailed, 1, 2, 3)
	require.Equal(t, 2, stepOf(t, s, 2).Rows)
	require.False(t, s.steps[0].Ends)
	require.Equal(t, task.ID(2), s.steps[0].Progress.After.ID)
}

// Running tasks that others have locked keep no waiting one from being cancelled.
func TestLockedRunningTasksLeaveRoom(t *testing.T) {
	s := &shelf{Operation: store.Operation{ID: 1, Verb: store.VerbCancel, Batch: 7}}
	for id := range task.ID(10) {
		s.stops.Running = append(s.stops.Running, store.BatchTask{ID: id + 1, State: task.StateRunning})
	}
	s.stops.Waiting, s.stops.Left = tasks(task.StatePending, 21, 22, 23), 13
	s.answer = func(step *store.Step) (store.StepResult, error) {
		return store.StepResult{Applied: true, Rows: len(step.Cancel)}, nil
	}
	require.Equal(t, 3, stepOf(t, s, 10).Rows)
}

// An operation that cannot be carried on keeps those behind it waiting for no more than a call.
func TestAFailureBlocksNoOtherOperation(t *testing.T) {
	s := &shelf{Operation: store.Operation{ID: 1, Verb: store.VerbRetry, Batch: 7}}
	s.other = &store.Operation{ID: 2, Verb: store.VerbCancel, Batch: 8}
	s.finished = tasks(task.StateFailed, 1)
	s.stops.Waiting, s.stops.Left = tasks(task.StatePending, 5), 1
	s.answer = func(step *store.Step) (store.StepResult, error) {
		if step.Operation.ID == 1 {
			return store.StepResult{}, errLost
		}
		return store.StepResult{Applied: true, Rows: 1}, nil
	}
	e := NewEngine(s)
	_, err := e.Step(t.Context(), 10)
	require.ErrorIs(t, err, errLost)
	did, err := e.Step(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, did.Rows)
	_, err = e.Step(t.Context(), 10)
	require.ErrorIs(t, err, errLost, "it is tried again")
}
