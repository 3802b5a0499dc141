package suite

import (
	"context"

	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

// many measures POSTs of many rows each beside a POST for each row by peers, and beside this engine's own rate of rows that do nothing.
func many(ctx context.Context, s *Suite) error {
	for range s.Rounds {
		for _, c := range s.Peers {
			for _, j := range manyJobs(s, c.Name) {
				as := c.Name
				if j.Kind == work.Noop {
					as = "no-op"
				}
				if err := s.run(ctx, "many", as, rig.Run{Contender: c, Job: j}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// manyJobs are what a contender does; nothing for the raw loop, which sends no requests of many rows.
func manyJobs(s *Suite, contender string) []work.Job {
	switch contender {
	case "leasehold":
		return []work.Job{{Kind: work.Many, Rows: s.rows(200_000)}, {Kind: work.Noop, Rows: s.rows(200_000)}}
	case "raw":
		return nil
	default:
		return []work.Job{{Kind: work.HTTP, Rows: s.rows(40_000)}}
	}
}
