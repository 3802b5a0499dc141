package suite

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

// throughPooler does the work through PgBouncer in transaction mode, which lets no notification through. Leasehold is
// not configured so; River is. Polling is as it comes, and for Leasehold's latency also every 10 ms.
func throughPooler(ctx context.Context, s *Suite) error {
	if s.Pooler == "" {
		s.LeftOut = append(s.LeftOut, "pgbouncer: there is none (apt install pgbouncer)")
		return nil
	}
	through := func(d *rig.Database) (string, error) { return d.Through(s.Pooler) }
	for range s.Rounds {
		for _, j := range []work.Job{
			{Kind: work.Noop, Rows: s.rows(200_000)}, {Kind: work.HTTP, Rows: s.rows(60_000)}, {Kind: work.Latency, Rows: s.rows(500)},
		} {
			scenario := "pgbouncer-" + string(j.Kind)
			if c, there := s.contender("leasehold"); there {
				all := []variant{{"leasehold direct", rig.Run{Contender: c, Job: j}}, {"leasehold", rig.Run{Contender: c, Job: j, Through: through}}}
				if j.Kind == work.Latency {
					often := j
					often.Poll = 10 * time.Millisecond
					all = append(all, variant{"leasehold 10 ms", rig.Run{Contender: c, Job: often, Through: through}})
				}
				if err := s.each(ctx, scenario, all); err != nil {
					return err
				}
			}
			if c, there := s.contender("river"); there {
				j.NoNotify = true
				if err := s.run(ctx, scenario, "river", rig.Run{Contender: c, Job: j, Through: through}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// variant is a run with a name.
type variant struct {
	name string
	run  rig.Run
}

func (s *Suite) each(ctx context.Context, scenario string, all []variant) error {
	for _, v := range all {
		if err := s.run(ctx, scenario, v.name, v.run); err != nil {
			return err
		}
	}
	return nil
}
