package suite

import (
	"context"

	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

const (
	lockRows = 100_000
	lockKeys = 1000
	// neverLocked leaves every row without a lock.
	neverLocked = 1 << 30
)

// locks measures what rows with locks cost, and what they cost those without: rows without locks alone, beside as many that wait for their
// locks, mixed with as many that have locks, and rows that all have one.
func locks(ctx context.Context, s *Suite) error { return apart(ctx, s, "locks", "locked", false) }

// sequences measures the same of rows with sequences.
func sequences(ctx context.Context, s *Suite) error {
	return apart(ctx, s, "sequences", "in sequence", true)
}

// apart measures rows of which no two with the same lock, or sequence, run at once.
func apart(ctx context.Context, s *Suite, scenario, all string, inSequence bool) error {
	c, there := s.contender("leasehold")
	if !there {
		return nil
	}
	rows, keys := s.rows(lockRows), s.rows(lockKeys)
	runs := []struct {
		name string
		job  work.Job
	}{
		{"free", work.Job{Rows: rows, LockedEvery: neverLocked}},
		{"beside waiting", work.Job{Rows: rows, LockedEvery: neverLocked, Waiting: rows}},
		{"mixed", work.Job{Rows: 2 * rows, LockedEvery: 2}},
		{all, work.Job{Rows: rows, LockedEvery: 1}},
	}
	for round := range s.Rounds {
		for i := range runs {
			run := runs[(i+round)%len(runs)] // which comes first changes
			run.job.Kind, run.job.Locks, run.job.Sequences = work.Noop, keys, inSequence
			if err := s.run(ctx, scenario, run.name, rig.Run{Contender: c, Job: run.job}); err != nil {
				return err
			}
		}
	}
	return nil
}
