package model

import (
	"github.com/leasehold/leasehold/internal/task"
)

// Tamper gives f the tables, to break them.
func (s *Store) Tamper(f func(live, archive map[task.ID]*Row, attempts map[task.ID][]Attempt)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.live, s.archive, s.attempts)
}

// Kept tells whether transactions of applications keep the row.
func (s *Store) Kept(id task.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[id] > 0
}

// Each is Tamper of every live row.
func (s *Store) Each(f func(*Row)) {
	s.Tamper(func(live, _ map[task.ID]*Row, _ map[task.ID][]Attempt) {
		for _, r := range live {
			f(r)
		}
	})
}
