package suite

import (
	"context"

	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

// onSQLite does the same on SQLite files, beside a raw loop on one.
func onSQLite(ctx context.Context, s *Suite) error {
	jobs := []work.Job{
		{Kind: work.Noop, Rows: s.rows(100_000)}, {Kind: work.HTTP, Rows: s.rows(40_000)}, {Kind: work.Latency, Rows: s.rows(500)},
	}
	for range s.Rounds {
		for _, j := range jobs {
			for _, c := range s.Files {
				if err := s.run(ctx, "sqlite-"+string(j.Kind), c.Name, rig.Run{Contender: c, Job: j}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
