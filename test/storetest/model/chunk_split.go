package model

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ChunkTask returns the live chunk of a task, or store.ErrNoChunk.
func (s *Store) ChunkTask(ctx context.Context, id task.ID) (*store.ChunkTask, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	c, r := s.chunks[id], s.live[id]
	if c == nil || r == nil || c.State != openChunk || s.batches[r.Batch].Stopping {
		return nil, store.ErrNoChunk
	}
	p := s.plans[c.Plan]
	of := &store.ChunkTask{Plan: c.Plan, Table: p.Table, Key: p.Key, Range: c.Range, Rows: c.Rows}
	for _, a := range s.attempts[id] {
		if a.Phase == task.Run && (a.Outcome == task.Stalled || a.Outcome == task.TimedOut) {
			of.Stuck++
		}
	}
	return of, nil
}

// splits reports whether a row that is to be split is a chunk of a batch that goes on.
func (s *Store) splits(r *Row, e store.Settlement) bool {
	c := s.chunks[r.ID]
	return e.Outcome.Split != nil && c != nil && c.State == openChunk && !s.batches[r.Batch].Stopping
}

// split puts two chunks in the place of one whose task has just ended so.
func (s *Store) split(r *Row, e store.Settlement, now time.Time) {
	c := s.chunks[r.ID]
	c.State = string(store.ChunkOver)
	p := s.plans[c.Plan]
	p.State.Version++
	place := store.ChunkPlace{Spec: p.ChunkSpec, Planned: c.Planned, Part: c.Part, Range: c.Range}
	var ids [2]task.ID
	for n, h := range place.Halves(e.Outcome.Split) {
		row, _ := makeRow(store.EnqueueRequest{ // whose values are good
			Type: r.Type, Payload: []byte(h.Payload), Batch: r.Batch, CreatedBy: r.CreatedBy,
		}, now)
		row.Priority, row.Region, row.Labels, row.Traceparent, row.MaxAttempts = r.Priority, r.Region, r.Labels, r.Traceparent, r.MaxAttempts
		row.RollbackPayload, row.Round, row.Deadline, row.LeaseEnd, row.Policy = r.RollbackPayload, r.Round, r.Deadline, r.LeaseEnd, r.Policy
		row.EverStarted, row.Fence = r.EverStarted, 1
		if row.RunAt.Before(r.LeaseEnd) {
			row.RunAt = r.LeaseEnd
		}
		s.add(row)
		ids[n] = row.ID
		half := *c
		half.Part, half.Range, half.Rows, half.State = h.Part, h.Range, h.Rows, openChunk
		s.chunks[row.ID] = &half
	}
	r.Result = store.SplitResult(ids)
}
