package ops

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
)

// Orphans is what operators' work on rows that no agent claims needs of the store.
type Orphans interface {
	// Orphans lists the types of waiting rows that no present agent with workers declares, by name, 10,000 at most.
	Orphans(ctx context.Context) ([]store.OrphanType, error)
}
