package task

import "slices"

// State is the state of a task. The names are those in the store.
type State string

// The states of a task.
const (
	StatePending         State = "pending"          // waits for its first attempt that counts
	StateRunning         State = "running"          // an attempt holds it
	StateRetryPending    State = "retry_pending"    // waits for another attempt
	StateSucceeded       State = "succeeded"        // done
	StateFailed          State = "failed"           // failed for good
	StateCancelled       State = "cancelled"        // cancelled
	StateSplit           State = "split"            // a chunk of a big table: two others took its place
	StateRollbackPending State = "rollback_pending" // waits to be rolled back
	StateRollbackRunning State = "rollback_running" // an attempt is rolling it back
	StateRolledBack      State = "rolled_back"      // rolled back
	StateRollbackFailed  State = "rollback_failed"  // its rollback failed for good
)

// States lists every state, in the order of a task's life.
func States() []State {
	return []State{
		StatePending, StateRunning, StateRetryPending, StateSucceeded, StateFailed, StateCancelled, StateSplit,
		StateRollbackPending, StateRollbackRunning, StateRolledBack, StateRollbackFailed,
	}
}

// Waiting reports whether a task in this state can be claimed once it is due.
func (s State) Waiting() bool {
	return s == StatePending || s == StateRetryPending || s == StateRollbackPending
}

// Running reports whether an attempt holds a task in this state.
func (s State) Running() bool { return s == StateRunning || s == StateRollbackRunning }

// Live reports whether a task in this state is in the hot table.
func (s State) Live() bool { return s.Waiting() || s.Running() }

// Finished reports whether a task in this state is in the archive.
func (s State) Finished() bool { return s.Known() && !s.Live() }

// Known reports whether s is one of States.
func (s State) Known() bool { return slices.Contains(States(), s) }

// Phase returns the phase that a task in this state is or would be claimed for.
func (s State) Phase() Phase {
	if s == StateRollbackPending || s == StateRollbackRunning {
		return Rollback
	}
	return Run
}

// Claimed returns the state that a claim gives a task waiting in s; s itself if it does not wait.
func (s State) Claimed() State {
	switch s {
	case StatePending, StateRetryPending:
		return StateRunning
	case StateRollbackPending:
		return StateRollbackRunning
	}
	return s
}
