package ops

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
)

// DownDeletesTasks reports whether taking back the newest step of the schema deletes tasks: the tables came with the first step
// and go with it. Tables that cannot be read, because they are an earlier version's, count as if there were tasks in them.
func DownDeletesTasks(ctx context.Context, m store.Migrator, s Store) (bool, error) {
	steps, err := m.Status(ctx)
	if err != nil {
		return false, err
	}
	applied := 0
	for _, step := range steps {
		if step.Applied != nil {
			applied++
		}
	}
	if applied != 1 {
		return false, nil
	}
	found, err := s.List(ctx, store.TaskFilter{Limit: 1})
	return err != nil || len(found) > 0, nil //nolint:nilerr // as above
}
