package sqlite

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Exchange settles ends and then claims: the one writer at a time counts what runs of a limit anyway, so nothing is gained by less.
func (s *Store) Exchange(ctx context.Context, c store.Claim, ends []store.Settlement) ([]task.Task, []store.Answer, error) {
	answers, err := s.Settle(ctx, c.Session, ends)
	if err != nil {
		return nil, nil, err
	}
	tasks, err := s.Claim(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	return tasks, answers, nil
}
