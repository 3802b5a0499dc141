package tryout

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// PhaseOf returns the phase of which From makes an attempt unless another one is wanted: a rollback where the task waits for one, runs
// one, or could not be rolled back.
func PhaseOf(i *store.TaskInfo) task.Phase {
	switch i.State {
	case task.StateRollbackPending, task.StateRollbackRunning, task.StateRollbackFailed:
		return task.Rollback
	}
	return task.Run
}

// From returns an attempt as that task has it: its last one, or the next one where it waits. after is what it has waited for; nil: nothing.
// data, unless it is nil, takes the place of what the attempt works on. The fence is 0, which no claim hands out: so nothing that the attempt
// does with it can meet the task in the store. Its deadline counts from now. Close it.
func From(i *store.TaskInfo, after *task.After, data json.RawMessage, t *task.Type, phase task.Phase) *Tryout {
	now := time.Now().UTC()
	row := &task.Task{
		ID: i.ID, Type: i.Type, State: task.StateRunning, MaxAttempts: i.MaxAttempts, Deferrals: i.Deferrals, Round: i.Round,
		EverStarted: i.EverStarted, Payload: i.Payload, Result: i.Result, Labels: i.Labels, Checkpoint: i.Checkpoint, Key: i.Key,
		Region: i.Region, Priority: i.Priority, Traceparent: i.Traceparent, CreatedBy: i.CreatedBy, Batch: i.Batch, Lock: i.Lock,
		Sequence: i.Sequence, Tenant: i.Tenant, HasAfter: after != nil, RollbackPayload: i.RollbackPayload, Policy: t.Policy.Hash(i.Type),
		CreatedAt: i.CreatedAt, RunAt: i.RunAt, ClaimedAt: now, LeaseEnd: now.Add(t.Policy.Window(phase)),
	}
	switch {
	case phase == task.Rollback:
		row.State, row.EverStarted, row.Cause = task.StateRollbackRunning, true, cmp.Or(i.Cause, task.Failed)
		if data != nil {
			row.RollbackPayload = data
		}
	case data != nil:
		row.Payload = data
	}
	if phase == task.Run {
		row.Result = nil
		if t.Policy.Deadline > 0 {
			row.Deadline = now.Add(t.Policy.Deadline)
		}
	}
	row.Attempt, row.Previous = attemptOf(i, phase)
	try := start(row, t)
	if phase == task.Run {
		try.lease.SetAfter(after)
	}
	return try
}

// attemptOf returns the number of the attempt, and how the one before ended.
func attemptOf(i *store.TaskInfo, phase task.Phase) (n int, before *task.Previous) {
	history := slices.Clone(i.History)
	switch {
	case PhaseOf(i) != phase || i.State == task.StateRolledBack: // the task is at another phase, or has left it
		history = slices.DeleteFunc(history, func(a store.AttemptInfo) bool { return a.Phase != phase })
		if n = 1; len(history) > 0 {
			n, history = max(history[len(history)-1].Attempt, 1), history[:len(history)-1]
		}
	case i.State.Waiting():
		n = i.Attempt + 1
	default:
		if n = max(i.Attempt, 1); i.State.Finished() && len(history) > 0 {
			history = history[:len(history)-1]
		}
	}
	if len(history) > 0 {
		last := &history[len(history)-1]
		before = &task.Previous{Outcome: last.Outcome, Error: last.Error}
	}
	return n, before
}

// start opens the attempt's lease.
func start(row *task.Task, t *task.Type) *Tryout {
	clock := lease.BootClock()
	return &Tryout{typ: t, lease: lease.New(context.Background(), row, &t.Policy, clock, clock.Now(), nil)}
}
