package suite

import (
	"context"

	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

const graphRows = 100_000

// graph measures what waiting for others costs: no-op rows that all wait for one, one that waits for as many, and rows that wait for none.
func graph(ctx context.Context, s *Suite) error {
	c, there := s.contender("leasehold")
	if !there {
		return nil
	}
	runs := []work.Graph{work.Beside, work.FanOut, work.FanIn}
	for round := range s.Rounds {
		for i := range runs {
			run := runs[(i+round)%len(runs)] // which comes first changes
			job := work.Job{Kind: work.Noop, Rows: s.rows(graphRows), Graph: run}
			if err := s.run(ctx, "graph", string(run), rig.Run{Contender: c, Job: job}); err != nil {
				return err
			}
		}
	}
	return nil
}
