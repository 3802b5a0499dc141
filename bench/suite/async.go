package suite

import (
	"context"
	"fmt"
	"time"
)

const (
	asyncTasks = 10_000
	asyncEvery = 5 * time.Second
	asyncFor   = 30 * time.Second
)

// async watches an agent that holds many leases of tasks which go on without a connection and ping; the peers know
// nothing of the kind.
func async(ctx context.Context, s *Suite) error {
	c, ok := s.contender("leasehold")
	if !ok {
		return nil
	}
	during := time.Duration(min(1, max(s.Scale, 0.1)) * float64(asyncFor))
	for range s.Rounds {
		if err := s.awaitQuiet(ctx); err != nil {
			return err
		}
		o, err := s.Rig.Async(ctx, c, s.rows(asyncTasks), asyncEvery, during)
		if err != nil {
			return fmt.Errorf("async: %w", err)
		}
		s.note("async", c.Name, c, o)
	}
	return nil
}
