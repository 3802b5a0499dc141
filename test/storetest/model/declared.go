package model

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// declaredBlock is a block that was ever loaded, and the sessions that declare it.
type declaredBlock struct {
	store.DeclaredBlock
	hash string
	by   map[task.Session]bool
}

// DeclareBlocks notes what a session declares.
func (s *Store) DeclareBlocks(ctx context.Context, session task.Session, list []store.Block) (known bool, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	a := s.agents[session]
	if a == nil {
		return false, nil
	}
	for _, b := range s.blocks {
		delete(b.by, session)
	}
	for i := range list {
		_, hash := list[i].Text()
		at := slices.IndexFunc(s.blocks, func(b *declaredBlock) bool {
			return b.Kind == list[i].Kind && b.Name == list[i].Name && b.hash == hash
		})
		if at < 0 {
			at = len(s.blocks)
			s.blocks = append(s.blocks, &declaredBlock{hash: hash, by: map[task.Session]bool{}, DeclaredBlock: store.DeclaredBlock{
				Block: list[i], Number: int64(at + 1), FirstAt: now, FirstBy: a.Name,
			}})
		}
		s.blocks[at].LastAt, s.blocks[at].LastBy = now, a.Name
		s.blocks[at].by[session] = true
	}
	return true, nil
}

// DeclaredBlocks lists what present sessions declare.
func (s *Store) DeclaredBlocks(ctx context.Context) ([]store.DeclaredBlock, error) {
	all, err := s.Declarations(ctx)
	return slices.DeleteFunc(all, func(b store.DeclaredBlock) bool { return len(b.Sessions) == 0 }), err
}

// Declarations lists what present sessions declare, and the newest definition of each other block that was ever loaded.
func (s *Store) Declarations(ctx context.Context) (list []store.DeclaredBlock, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	type name struct{ kind, name string }
	declared := map[name]bool{}
	latest := map[name]store.DeclaredBlock{}
	for _, b := range s.blocks {
		one := s.blockNow(b, now)
		latest[name{b.Kind, b.Name}] = one
		if len(one.Sessions) > 0 {
			declared[name{b.Kind, b.Name}] = true
			list = append(list, one)
		}
	}
	for n, b := range latest {
		if !declared[n] {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(x, y store.DeclaredBlock) int {
		return cmp.Or(strings.Compare(x.Kind, y.Kind), strings.Compare(x.Name, y.Name), cmp.Compare(x.Number, y.Number))
	})
	return list[:min(len(list), store.DeclarationsListed)], nil
}

// BlockHistory lists the definitions of a block, the newest first.
func (s *Store) BlockHistory(ctx context.Context, kind, name string, limit int) (list []store.DeclaredBlock, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for _, b := range slices.Backward(s.blocks) {
		if b.Kind == kind && b.Name == name && len(list) < limit {
			list = append(list, s.blockNow(b, now))
		}
	}
	return list, nil
}

// blockNow is a definition with the present sessions that declare it.
func (s *Store) blockNow(b *declaredBlock, now time.Time) store.DeclaredBlock {
	one := b.DeclaredBlock
	one.Hash = b.hash
	for _, session := range slices.Sorted(maps.Keys(b.by)) {
		if s.present(session, now) {
			one.Sessions = append(one.Sessions, session)
		}
	}
	return one
}
