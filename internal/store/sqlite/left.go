package sqlite

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
)

// Left looks for what others may have left to do.
func (s *Store) Left(ctx context.Context) (left store.Left, err error) {
	err = s.view(ctx, "look for what others have left", func(t *snapshot) error {
		left = store.Left{}
		if err := t.row([]any{&left.Turns, &left.Ends, &left.Waiting, &left.Changes}, t.sql.Left); err != nil {
			return err
		}
		left.Paused, err = t.pauses()
		return err
	})
	return left, err
}
