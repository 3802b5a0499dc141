package suite

import (
	"context"

	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

const (
	limitRows   = 40_000
	limitAgents = 4
	limitMost   = 64
)

// limits measures what a limit over all agents takes from the rate of four.
func limits(ctx context.Context, s *Suite) error {
	c, there := s.contender("leasehold")
	if !there {
		return nil
	}
	names := map[int]string{0: "without a limit", limitMost: "limit = 64"}
	for round := range s.Rounds {
		order := []int{0, limitMost}
		if round%2 == 1 { // which comes first changes
			order[0], order[1] = order[1], order[0]
		}
		for _, most := range order {
			j := work.Job{Kind: work.Brief, Rows: s.rows(limitRows), Agents: limitAgents, Limit: most}
			if err := s.run(ctx, "limit", names[most], rig.Run{Contender: c, Job: j}); err != nil {
				return err
			}
		}
	}
	return nil
}
