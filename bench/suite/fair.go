package suite

import (
	"context"

	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

// hungRows is more than can end in a run.
const hungRows = 2_000

// fair measures what a type whose target hangs takes from nine others on the same agent.
func fair(ctx context.Context, s *Suite) error {
	c, there := s.contender("leasehold")
	if !there {
		return nil
	}
	names := map[int]string{0: "nine types", hungRows: "and one that hangs"}
	for round := range s.Rounds {
		order := []int{0, hungRows}
		if round%2 == 1 { // which comes first changes
			order[0], order[1] = order[1], order[0]
		}
		for _, hung := range order {
			j := work.Job{Kind: work.Fair, Rows: s.rows(54_000), Hung: hung}
			if err := s.run(ctx, "fair", names[hung], rig.Run{Contender: c, Job: j}); err != nil {
				return err
			}
		}
	}
	return nil
}
