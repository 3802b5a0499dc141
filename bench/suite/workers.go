package suite

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

// workers measures tasks that do nothing in workers, one process for each core, beside peers, which start /bin/true for each.
func workers(ctx context.Context, s *Suite) error {
	_, missing := exec.LookPath("python3")
	if missing != nil {
		s.LeftOut = append(s.LeftOut, fmt.Sprintf("workers in Python: %s", missing))
	}
	for range s.Rounds {
		for _, c := range s.Peers {
			for _, j := range workerJobs(s, c.Name) {
				if j.Program == work.Python && missing != nil {
					continue
				}
				as := c.Name
				if j.Program != "" {
					as = j.Program
				}
				if err := s.run(ctx, "workers", as, rig.Run{Contender: c, Job: j}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// workerJobs are what a contender does; nothing for the raw loop, which has no workers.
func workerJobs(s *Suite, contender string) []work.Job {
	switch contender {
	case "leasehold":
		return []work.Job{
			{Kind: work.Worker, Program: work.Python, Rows: s.rows(60_000)},
			{Kind: work.Worker, Program: work.Go, Rows: s.rows(90_000)},
		}
	case "river":
		return []work.Job{{Kind: work.Exec, Rows: s.rows(8_000)}}
	case "graphile":
		return []work.Job{{Kind: work.Exec, Rows: s.rows(3_000)}}
	default:
		return nil
	}
}
