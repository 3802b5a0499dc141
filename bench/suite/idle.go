package suite

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/bench/rig"
)

const (
	idleFor  = 30 * time.Second
	idleMany = 50 // agents on one Postgres
)

// idle watches engines that have nothing to do; Leasehold's is the binary that is released.
func idle(ctx context.Context, s *Suite) error {
	during := time.Duration(min(1, max(s.Scale, 0.05)) * float64(idleFor))
	for range s.Rounds {
		for _, c := range s.Peers {
			if c.Name == "raw" { // it never rests
				continue
			}
			if err := s.watch(ctx, c, c.Name, 1, during); err != nil {
				return err
			}
			if c.Name != "leasehold" {
				continue
			}
			many := s.rows(idleMany) // 20 at the least
			if err := s.watch(ctx, c, fmt.Sprintf("%d leasehold", min(many, idleMany)), min(many, idleMany), during); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Suite) watch(ctx context.Context, c rig.Contender, as string, engines int, during time.Duration) error {
	if err := s.awaitQuiet(ctx); err != nil {
		return err
	}
	o, err := s.Rig.Idle(ctx, c, engines, during)
	if err != nil {
		return fmt.Errorf("idle %s: %w", as, err)
	}
	s.note("idle", as, c, o)
	return nil
}
