package store

import "time"

// Bounds of what is counted. Where there is more, a count is a lower bound.
const (
	CountedRows  = 10_000 // rows of one thing that is asked for
	CountedAll   = 5_000  // rows of all types together, of each index, by Counts: the more types, the fewer rows of each
	CountedTypes = 500    // types (and their regions) that are told apart
)

// NewStats returns the counts of nothing.
func NewStats() Stats {
	return Stats{Due: map[string]int64{}, OldestDue: map[string]time.Duration{}, Orphans: map[string]int64{}}
}

// Add adds rows to the count of their type and state, and to the orphans if they wait and no agent declares their type.
func (s *Stats) Add(c TypeCount, orphans bool) {
	if c.N == 0 {
		return
	}
	if orphans {
		s.Orphans[c.Type] += c.N
	}
	for i := range s.Waiting {
		if w := &s.Waiting[i]; w.Type == c.Type && w.State == c.State {
			w.N, w.More = w.N+c.N, w.More || c.More
			return
		}
	}
	s.Waiting = append(s.Waiting, c)
}

// AddDue adds rows that are due, the oldest for that long.
func (s *Stats) AddDue(typ string, n int64, oldest time.Duration) {
	s.Due[typ] += n
	s.OldestDue[typ] = max(s.OldestDue[typ], oldest)
}
