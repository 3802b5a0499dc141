package model

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

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
func (s *Store) DeclaredBlocks(ctx context.Context) (list []store.DeclaredBlock, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for _, b := range s.blocks {
		one := b.DeclaredBlock
		for _, session := range slices.Sorted(maps.Keys(b.by)) {
			if s.present(session, now) {
				one.Sessions = append(one.Sessions, session)
			}
		}
		if len(one.Sessions) > 0 {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(x, y store.DeclaredBlock) int {
		return cmp.Or(strings.Compare(x.Kind, y.Kind), strings.Compare(x.Name, y.Name), cmp.Compare(x.Number, y.Number))
	})
	return list, nil
}
