package postgres

import (
	"context"
	"errors"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

var errNotYet = errors.New("not in this version")

// Retry revives a task.
func (s *Store) Retry(ctx context.Context, id task.ID, by string) (ops.Became, error) {
	return "", errNotYet
}

// Rollback undoes what a task has done.
func (s *Store) Rollback(ctx context.Context, id task.ID, by string) (ops.Became, error) {
	return "", errNotYet
}
