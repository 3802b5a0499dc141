package model

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Batch is a group of tasks.
type Batch struct {
	ID            task.BatchID
	Name          string
	OnFailure     store.OnFailure
	FinishType    string // "": none
	FinishPayload json.RawMessage
	Labels        json.RawMessage // nil: none
	CreatedBy     string
	CreatedAt     time.Time
	Sealed        bool

	Round        int       // how often it was opened again
	EndedAt      time.Time // zero: it has not
	Stopping     bool      // nothing of it starts any more
	Requested    string    // verbCancel, verbRollback or "", in this round
	RequestedBy  string
	ByFailure    bool  // the request follows a failure
	Attempts     int64 // that have ended, but silent ones
	Failures     int64 // times that a task was given up as failed
	FailuresSeen int64 // of these, what has been acted on

	Gone map[task.State]int64 // tasks past their retention
	open int                  // transactions of applications that have inserted into it
}

func (b *Batch) ended() bool { return !b.EndedAt.IsZero() }

// of lists the rows of a batch, by id.
func (s *Store) of(id task.BatchID) []*Row {
	var out []*Row
	for _, table := range []map[task.ID]*Row{s.live, s.archive} {
		for _, r := range table {
			if id != 0 && r.Batch == id {
				out = append(out, r)
			}
		}
	}
	slices.SortFunc(out, func(a, b *Row) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// tally counts the end of an attempt.
func (s *Store) tally(r *Row, e store.Settlement) {
	b := s.batches[r.Batch]
	if b == nil {
		return
	}
	if !e.Silent {
		b.Attempts++
	}
	failed := e.Next.State == task.StateFailed
	rolledBack := e.Next.State == task.StateRollbackPending && r.cause(e.Outcome.Verdict) != task.Cancelled
	if r.State == task.StateRunning && (failed || rolledBack) {
		b.Failures++
	}
}

// survey counts the rows of a batch, and says where it stands.
func (s *Store) survey(b *Batch) store.BatchInfo {
	in := maps.Clone(b.Gone)
	for _, r := range s.of(b.ID) {
		in[r.State]++
	}
	i := store.BatchInfo{
		ID: b.ID, Name: b.Name, OnFailure: b.OnFailure, Sealed: b.Sealed, Stopping: b.Stopping, Round: b.Round,
		Waiting: in[task.StatePending] + in[task.StateRetryPending], Running: in[task.StateRunning],
		RollingBack: in[task.StateRollbackPending] + in[task.StateRollbackRunning],
		Succeeded:   in[task.StateSucceeded], Failed: in[task.StateFailed], Cancelled: in[task.StateCancelled],
		RolledBack: in[task.StateRolledBack], RollbackFailed: in[task.StateRollbackFailed],
		FinishType: b.FinishType, Labels: b.Labels, CreatedBy: b.CreatedBy, CreatedAt: b.CreatedAt,
		EndedAt: known(b.EndedAt), RequestedBy: b.RequestedBy, Failures: b.Failures,
	}
	i.Live = i.Waiting + i.Running + i.RollingBack
	for state, n := range in {
		if state != task.StateSplit { // two others took its place
			i.Total += n
		}
	}
	if i.Total > 0 {
		done := float64(i.Total-i.Live) / float64(i.Total)
		i.Progress = &done
	}
	for _, o := range s.operations {
		if o.Batch == b.ID {
			i.Refused = o.Refused
			if !o.Over {
				i.Operation = o.Verb
			}
		}
	}
	i.State = b.state(&i)
	return i
}

// StateOf is where a batch stands of which that is known.
func StateOf(f *store.BatchFacts) store.BatchState {
	b := &Batch{Requested: f.Requested, ByFailure: f.ByFailure, Attempts: f.Attempts}
	if f.Ended {
		b.EndedAt = time.Unix(1, 0)
	}
	return b.state(&store.BatchInfo{
		Total: f.Total, Live: f.Live(), Running: f.Running, RollingBack: f.RollingBack, Succeeded: f.Succeeded, Failed: f.Failed,
		Cancelled: f.Cancelled, RolledBack: f.RolledBack, RollbackFailed: f.RollbackFailed,
	})
}

// state is where a batch stands.
func (b *Batch) state(i *store.BatchInfo) store.BatchState {
	if b.ended() {
		return b.end(i)
	}
	switch {
	case b.Requested == verbRollback, i.RollingBack > 0 && i.Live == i.RollingBack:
		return store.BatchRollingBack
	case b.Attempts > 0, i.Running > 0, i.RollingBack > 0, i.Live < i.Total:
		return store.BatchRunning
	}
	return store.BatchPending
}

// end is how a batch has ended.
func (b *Batch) end(i *store.BatchInfo) store.BatchState {
	switch {
	case i.RollbackFailed > 0:
		return store.BatchRollbackFailed
	case b.Requested == verbRollback:
		return store.BatchRolledBack
	case b.Requested == verbCancel && !b.ByFailure && i.Cancelled > 0:
		return store.BatchCancelled
	case i.Total > 0 && i.RolledBack == i.Total:
		return store.BatchRolledBack
	case i.Failed+i.RolledBack > 0 && i.Succeeded > 0:
		return store.BatchPartiallyFailed
	case i.Failed+i.RolledBack > 0:
		return store.BatchFailed
	case i.Cancelled > 0:
		return store.BatchCancelled
	}
	return store.BatchSucceeded
}

// GetBatch returns a batch.
func (s *Store) GetBatch(ctx context.Context, id task.BatchID) (*store.BatchInfo, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	b := s.batches[id]
	if b == nil {
		return nil, fmt.Errorf("get batch %d: %w", id, store.ErrNoBatch)
	}
	i := s.survey(b)
	return &i, nil
}

// ListBatches returns batches that match, newest first.
func (s *Store) ListBatches(ctx context.Context, f store.BatchFilter) ([]store.BatchInfo, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []store.BatchInfo
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(s.batches))) {
		i := s.survey(s.batches[id])
		if (f.Name == "" || f.Name == i.Name) && (f.Before == 0 || id < f.Before) &&
			(len(f.States) == 0 || slices.Contains(f.States, i.State)) {
			out = append(out, i)
		}
	}
	return out[:min(store.PageSize(f.Limit), len(out))], nil
}

// BatchFailures calls each with the rows of a batch that went wrong, newest first.
func (s *Store) BatchFailures(ctx context.Context, id task.BatchID, each func(task.ID, string)) error {
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.batches[id] == nil {
		return fmt.Errorf("failures of batch %d: %w", id, store.ErrNoBatch)
	}
	left := store.BatchFailuresRead
	for _, r := range slices.Backward(s.of(id)) {
		switch {
		case left == 0:
			return nil
		case r.State == task.StateFailed || r.State == task.StateRollbackFailed:
			each(r.ID, r.Error)
			left--
		case r.Cause != "" && r.Cause != task.Succeeded && r.Cause != task.Cancelled:
			each(r.ID, s.rollbackReason(r))
			left--
		}
	}
	return nil
}

// rollbackReason is what the run said whose failure is (being) rolled back.
func (s *Store) rollbackReason(r *Row) string {
	for _, a := range slices.Backward(s.attempts[r.ID]) {
		if a.Phase == task.Run {
			return a.Error
		}
	}
	return ""
}

// unended counts the tasks of batches that have not ended.
func (s *Store) unended() map[string]int64 {
	out := map[string]int64{}
	for _, b := range s.batches {
		if i := s.survey(b); !b.ended() {
			for name, n := range map[string]int64{
				"waiting": i.Waiting, "running": i.Running, "rolling_back": i.RollingBack, "succeeded": i.Succeeded, "failed": i.Failed,
				"cancelled": i.Cancelled, "rolled_back": i.RolledBack, "rollback_failed": i.RollbackFailed,
			} {
				out[name] += n
			}
		}
	}
	return out
}
