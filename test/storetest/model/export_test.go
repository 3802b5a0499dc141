package model

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Tamper gives f the tables, to break them.
func (s *Store) Tamper(f func(live, archive map[task.ID]*Row, attempts map[task.ID][]Attempt)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.live, s.archive, s.attempts)
}

// Kept reports whether transactions of applications keep the row.
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

// TamperBatches gives f the batches, what is wanted of them, and the audit, to break them.
func (s *Store) TamperBatches(f func(batches map[task.BatchID]*Batch, operations []*Operation, audit *[]Audit)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.batches, s.operations, &s.audit)
}

// Unwatched forgets the transactions that have inserted into the batch.
func (b *Batch) Unwatched() { b.open = 0 }

// TamperLeases gives f the named leases, to break them.
func (s *Store) TamperLeases(f func(map[string]*NamedLease)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.named)
}

// ForgetFences begins to count the fences of named leases anew.
func (s *Store) ForgetFences() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastLease = 0
}

// TamperChunks gives f the chunk plans and their chunks, to break them.
func (s *Store) TamperChunks(f func(plans map[string]*ChunkPlan, chunks map[task.ID]*Chunk)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.plans, s.chunks)
}

// TamperSchedules gives f the schedules, to break them.
func (s *Store) TamperSchedules(f func(map[string]*Schedule)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.schedules)
}

// TamperFollowers gives f the followers, by type and key, and the live rows, to break them.
func (s *Store) TamperFollowers(f func(follow map[[2]string]*Row, live map[task.ID]*Row)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.follow, s.live)
}

// ForgetLockNotes forgets that rows have left their locks, or until when what they ran may be at work.
func (s *Store) ForgetLockNotes(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all {
		s.lockNotes = nil
	}
	for i := range s.lockNotes {
		s.lockNotes[i].until = time.Time{}
	}
}

// ForgetTurns forgets that rows have left their sequences, or until when what they ran may be at work.
func (s *Store) ForgetTurns(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all {
		s.turns.notes = nil
	}
	for i := range s.turns.notes {
		s.turns.notes[i].until = time.Time{}
	}
}

// ForgetFailures forgets which rows of sequences have failed.
func (s *Store) ForgetFailures() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.turns.failed)
}

// ForgetHeads forgets whose turn it is.
func (s *Store) ForgetHeads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.turns.heads)
}

// ForgetTenantTurns forgets whose turn it was.
func (s *Store) ForgetTenantTurns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tenantTurns)
}

// ChangeBulk gives f the newest bulk change, to break it; there may be none.
func (s *Store) ChangeBulk(f func(*Bulk)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bulks) > 0 {
		f(s.bulks[len(s.bulks)-1])
	}
}
