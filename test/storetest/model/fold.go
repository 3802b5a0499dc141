package model

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Fold acts on failures, and ends batches that are done. There is nothing to sum: rows are counted when they are read.
func (s *Store) Fold(ctx context.Context, limit int) (store.Folded, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return store.Folded{}, err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return store.Folded{}, err
	}
	var f store.Folded
	for _, id := range slices.Sorted(maps.Keys(s.batches)) {
		b := s.batches[id]
		if f.Batches == limit || b.ended() {
			continue
		}
		acted := s.act(b, now)
		ended := s.done(b)
		if ended {
			s.end(b, now)
			f.Ended++
			f.Ends = append(f.Ends, s.summary(b))
		}
		if acted {
			f.Acted++
			sum := s.summary(b)
			sum.State = b.Requested
			f.Acts = append(f.Acts, sum)
		}
		if acted || ended {
			f.Batches++
		}
	}
	return f, s.fail(afterSettle)
}

// act does what is to follow a failure.
func (s *Store) act(b *Batch, now time.Time) bool {
	if b.Failures <= b.FailuresSeen || b.Requested != "" {
		return false
	}
	b.FailuresSeen = b.Failures
	var verb, answer string
	switch b.OnFailure {
	case store.OnFailureContinue:
		return false
	case store.OnFailureCancel:
		verb, answer = verbCancel, string(store.Cancelling)
	case store.OnFailureRollback:
		verb, answer = verbRollback, string(store.BatchRollingBack)
	}
	s.stop(b, verb, onFailure, now)
	s.audit = append(s.audit, Audit{Who: onFailure, Verb: verb, Batch: b.ID, Answer: answer})
	return true
}

// done reports whether nothing of a batch is left to do, and nothing can come.
func (s *Store) done(b *Batch) bool {
	busy := s.unfinished(func(o *Operation) bool { return o.Batch == b.ID || o.BatchOfTask == b.ID }) != nil
	coming := slices.ContainsFunc(s.revivedNotes, func(n revivedNote) bool { return n.batch == b.ID })
	return b.Sealed && b.open == 0 && !busy && !coming && s.survey(b).Live == 0
}

// end ends a batch, and inserts the finish row of it.
func (s *Store) end(b *Batch, now time.Time) {
	b.EndedAt = now
	if b.FinishType == "" {
		return
	}
	i := s.survey(b)
	var payload map[string]any
	d := json.NewDecoder(bytes.NewReader(b.FinishPayload))
	d.UseNumber()
	_ = d.Decode(&payload) // it was looked at when the batch was inserted
	payload["batch"] = map[string]any{
		"id": b.ID, "name": b.Name, "state": i.State, "round": b.Round, "total": i.Total, "succeeded": i.Succeeded,
		"failed": i.Failed, "cancelled": i.Cancelled, "rolled_back": i.RolledBack, "rollback_failed": i.RollbackFailed,
	}
	text, _ := json.Marshal(payload) // of what was JSON
	s.add(&Row{
		Type: b.FinishType, State: task.StatePending, Payload: text, CreatedBy: "leasehold", CreatedAt: now, RunAt: now,
	})
}

func (s *Store) summary(b *Batch) store.BatchSummary {
	i := s.survey(b)
	return store.BatchSummary{
		ID: b.ID, Name: b.Name, State: string(i.State), Round: b.Round, Total: i.Total, Succeeded: i.Succeeded,
		Failed: i.Failed, Cancelled: i.Cancelled, RolledBack: i.RolledBack, RollbackFailed: i.RollbackFailed,
	}
}
