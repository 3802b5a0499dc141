package sqlite

import (
	"context"
	"errors"

	"github.com/leasehold/leasehold/internal/store"
)

// Grant refuses: a file has no roles.
func (migrator) Grant(context.Context, store.Roles) (bool, error) {
	return false, errors.New("a SQLite file has no roles")
}
