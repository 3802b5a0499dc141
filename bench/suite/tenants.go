package suite

import (
	"context"

	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

const (
	tenantRows = 200_000
	tenantMany = 10_000
)

// tenants measures what turns cost: no-op rows of many tenants, of one, and of none.
func tenants(ctx context.Context, s *Suite) error {
	c, there := s.contender("leasehold")
	if !there {
		return nil
	}
	rows := s.rows(tenantRows)
	runs := []struct {
		name    string
		tenants int
	}{{"none", 0}, {"one", 1}, {"many", s.rows(tenantMany)}}
	for round := range s.Rounds {
		for i := range runs {
			run := runs[(i+round)%len(runs)] // which comes first changes
			job := work.Job{Kind: work.Noop, Rows: rows, Tenants: run.tenants}
			if err := s.run(ctx, "tenants", run.name, rig.Run{Contender: c, Job: job}); err != nil {
				return err
			}
		}
	}
	return nil
}
