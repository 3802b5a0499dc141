package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

// workers measures tasks that do nothing in workers, one process for each core, beside peers, which start /bin/true for each.
func workers(ctx context.Context, s *Suite) (err error) {
	dir, err := os.MkdirTemp("", "leasehold-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	compiled, missing := programs(ctx, dir)
	for program, why := range missing {
		s.LeftOut = append(s.LeftOut, fmt.Sprintf("workers in %s: %s", program, why))
	}
	for range s.Rounds {
		for _, c := range s.Peers {
			for _, j := range workerJobs(s, c.Name) {
				if missing[j.Program] != nil {
					continue
				}
				j.Compiled = compiled
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

// programs compiles the program in C into a directory, and says which programs cannot be run here, and why.
func programs(ctx context.Context, dir string) (compiled string, missing map[string]error) {
	missing = make(map[string]error)
	if _, err := exec.LookPath("python3"); err != nil {
		missing[work.Python] = err
	}
	compiled, err := work.Compile(ctx, dir)
	if err != nil {
		missing[work.C] = err
	}
	return compiled, missing
}

// workerJobs are what a contender does; nothing for the raw loop, which has no workers.
func workerJobs(s *Suite, contender string) []work.Job {
	switch contender {
	case "leasehold":
		return []work.Job{
			{Kind: work.Worker, Program: work.Python, Rows: s.rows(60_000)},
			{Kind: work.Worker, Program: work.Go, Rows: s.rows(90_000)},
			{Kind: work.Worker, Program: work.C, Rows: s.rows(90_000)},
		}
	case "river":
		return []work.Job{{Kind: work.Exec, Rows: s.rows(8_000)}}
	case "graphile":
		return []work.Job{{Kind: work.Exec, Rows: s.rows(3_000)}}
	default:
		return nil
	}
}
