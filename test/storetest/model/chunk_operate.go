package model

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ListChunks returns plans by name.
func (s *Store) ListChunks(ctx context.Context, f store.ChunkPlanFilter) (list []store.ChunkPlanInfo, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.plans)) {
		if name >= f.From && (f.Name == "" || f.Name == name) && len(list) < store.PageSize(f.Limit) {
			list = append(list, s.chunkPlanInfo(s.plans[name], now))
		}
	}
	return list, nil
}

func (s *Store) chunkPlanInfo(p *ChunkPlan, now time.Time) store.ChunkPlanInfo {
	i := store.ChunkPlanInfo{
		Name: p.Name, Task: p.Task, Table: p.Table, Key: p.Key, Source: json.RawMessage(`{}`), Ahead: p.Ahead, Follow: p.Follow,
		Target: p.ChunkSpec.Size.Target, Size: p.State.Size, PerRow: p.State.PerRow, Pass: p.State.Pass, Done: p.Done.Rows, High: p.State.High,
		CreatedAt: p.CreatedAt, PausedAt: p.PausedAt, PausedBy: p.PausedBy,
	}
	if i.Size == 0 {
		i.Size = p.ChunkSpec.Size.Start
	}
	at := store.ChunkStanding{
		Paused: !p.PausedAt.IsZero(), Halted: s.stopped(p), Planning: p.planning() != nil, Over: p.State.Over, Declared: s.chunksDeclared(p.Name, now),
	}
	i.State = at.State()
	for id, c := range s.chunks {
		if c.Plan != p.Name {
			continue
		}
		if r := s.archive[id]; r != nil && c.State == openChunk && r.State == task.StateSucceeded {
			i.Done += int64(c.Rows)
		}
		if s.live[id] != nil && c.State != string(store.ChunkOver) {
			i.Live++
		}
		if c.State == string(store.ChunkFailed) && c.Failures+1 >= store.ChunkHeldAfter {
			i.Held++
		}
	}
	return i
}

// chunksDeclared reports whether a present session declares a plan.
func (s *Store) chunksDeclared(name string, now time.Time) bool {
	for _, d := range s.chunkDeclarations {
		for session := range d.by {
			if a := s.agents[session]; a != nil && d.Spec.Name == name && a.PresentUntil.After(now) {
				return true
			}
		}
	}
	return false
}

// stopped reports whether the batch of the pass that is being planned accepts no more rows.
func (s *Store) stopped(p *ChunkPlan) bool {
	pass := p.planning()
	return pass != nil && pass.Batch != 0 && s.admits(pass.Batch) != nil
}

// ListPasses returns the newest passes of a plan.
func (s *Store) ListPasses(ctx context.Context, f store.ChunkPassFilter) (list []store.ChunkPassInfo, err error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	p := s.plans[f.Plan]
	if p == nil {
		return nil, nil
	}
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(p.Passes))) {
		if f.Below != 0 && n >= f.Below {
			continue
		}
		c := p.Passes[n]
		i := store.ChunkPassInfo{
			Pass: n, Whole: c.Full, From: c.From, Through: c.Through, Ranges: c.Ranges, Chunks: c.Chunks, Rows: c.Rows, BeganAt: c.Began,
			SealedAt: c.Sealed, Batch: c.Batch, Sizes: c.Sizes, First: c.First, Last: c.Last,
		}
		if b := s.batches[c.Batch]; b != nil {
			at := s.survey(b)
			i.State, i.Total, i.Live, i.Succeeded, i.Failed = at.State, at.Total, at.Live, at.Succeeded, at.Failed
			if at.EndedAt != nil {
				i.EndedAt = *at.EndedAt
			}
		}
		if len(list) < store.PageSize(f.Limit) {
			list = append(list, i)
		}
	}
	return list, nil
}

// PauseChunks has agents plan nothing more of a plan.
func (s *Store) PauseChunks(ctx context.Context, name, by string) (bool, error) {
	return s.changeChunks(ctx, "pause", "paused", name, by, func(p *ChunkPlan, now time.Time) bool {
		if !p.PausedAt.IsZero() {
			return false
		}
		p.PausedAt, p.PausedBy = now.Truncate(time.Millisecond), by
		return true
	})
}

// ResumeChunks has agents go on with a plan, where need be in a new batch.
func (s *Store) ResumeChunks(ctx context.Context, name, by string) (bool, error) {
	return s.changeChunks(ctx, "resume", "resumed", name, by, func(p *ChunkPlan, _ time.Time) bool {
		stopped := s.stopped(p)
		if p.PausedAt.IsZero() && !stopped {
			return false
		}
		p.PausedAt, p.PausedBy = time.Time{}, ""
		if stopped {
			p.planning().Batch = task.BatchID(0)
		}
		return true
	})
}

// changeChunks does what an operator wants, and notes it if that changed anything.
func (s *Store) changeChunks(
	ctx context.Context, verb, answer, name, by string, do func(p *ChunkPlan, now time.Time) bool,
) (changed bool, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return false, err
	}
	p := s.plans[name]
	if p == nil {
		return false, fmt.Errorf("%s chunks %q: %w", verb, name, store.ErrNoChunkPlan)
	}
	if changed = do(p, now); changed {
		p.State.Version++
		s.audit = append(s.audit, Audit{Who: by, Verb: verb, Chunks: name, Answer: answer})
	}
	return changed, s.fail(afterSettle)
}
