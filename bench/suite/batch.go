package suite

import (
	"context"
	"fmt"

	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

const (
	batchRows    = 1_000_000
	batchAgents  = 4
	batchSamples = 1000
	batchWatched = 30 // runs at most: a sample counts a million rows
)

// batches measures what it costs rows to belong to a batch. Further runs, which are not timed since looking costs
// as much as the work, compare the batch's counters with its rows again and again.
func batches(ctx context.Context, s *Suite) error {
	c, there := s.contender("leasehold")
	if !there {
		return nil
	}
	run := func(as bool) rig.Run {
		return rig.Run{Contender: c, Job: work.Job{Kind: work.Noop, Rows: s.rows(batchRows), Agents: batchAgents, Batch: as}}
	}
	names := map[bool]string{true: "in a batch", false: "by themselves"}
	for round := range s.Rounds {
		for _, as := range []bool{round%2 == 0, round%2 != 0} { // who comes first changes
			if err := s.run(ctx, "batch", names[as], run(as)); err != nil {
				return err
			}
		}
	}
	watched := run(true)
	w := rig.NewBatchWatch(s.rows(batchSamples))
	watched.Prepare = w.Begin
	for try := 0; try < batchWatched && w.Wants(); try++ {
		if _, err := s.Rig.Do(ctx, watched); err != nil {
			return fmt.Errorf("batch, watched: %w", err)
		}
	}
	s.note("batch", "watched", c, rig.Outcome{Measures: w.Measures()})
	return nil
}
