package model

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// Pauses lists the types that are paused.
func (s *Store) Pauses(ctx context.Context) ([]store.TypePause, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return slices.Clone(s.pauses), nil
}

// PauseType pauses a type.
func (s *Store) PauseType(ctx context.Context, typ, reason, by string) (bool, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	if n := len(typ); n < 1 || n > 255 {
		return false, refused("type must have 1 to 255 bytes")
	}
	if len(reason) > 512 {
		return false, refused("reason must be 512 bytes at most")
	}
	i, there := s.pauseOf(typ)
	if there {
		return false, nil
	}
	s.pauses = slices.Insert(s.pauses, i, store.TypePause{Type: typ, At: now.Truncate(time.Millisecond), By: by, Reason: reason})
	s.audit = append(s.audit, Audit{Who: by, Verb: "pause", Type: typ, Reason: reason, Answer: "paused"})
	return true, nil
}

// ResumeType resumes a type.
func (s *Store) ResumeType(ctx context.Context, typ, by string) (bool, error) {
	if _, err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	i, there := s.pauseOf(typ)
	if !there {
		return false, nil
	}
	s.pauses = slices.Delete(s.pauses, i, i+1)
	s.audit = append(s.audit, Audit{Who: by, Verb: "resume", Type: typ, Answer: "resumed"})
	return true, nil
}

// pauseOf returns the place of a type among those that are paused.
func (s *Store) pauseOf(typ string) (int, bool) {
	return slices.BinarySearchFunc(s.pauses, typ, func(p store.TypePause, typ string) int { return cmp.Compare(p.Type, typ) })
}
