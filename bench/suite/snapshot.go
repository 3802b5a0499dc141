package suite

import (
	"context"

	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

const snapshotRows = 500_000

// snapshot drains a table with and without a session elsewhere that keeps the server from clearing dead rows away.
func snapshot(ctx context.Context, s *Suite) error {
	for range s.Rounds {
		for _, name := range []string{"leasehold", "river"} {
			c, there := s.contender(name)
			if !there {
				continue
			}
			clean := rig.Run{Contender: c, Job: work.Job{Kind: work.Noop, Rows: s.rows(snapshotRows)}}
			if err := s.run(ctx, "snapshot", name, clean); err != nil {
				return err
			}
			held := clean
			held.Prepare = func(ctx context.Context, d *rig.Database) (func() error, error) { return d.HoldSnapshot(ctx) }
			if err := s.run(ctx, "snapshot", name+" held", held); err != nil {
				return err
			}
		}
	}
	return nil
}
