package chunk

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
)

// Store is what an Engine needs of the store.
type Store interface {
	// LookPlan returns a plan and at most limit of its obstacles, and locks nothing.
	LookPlan(ctx context.Context, name string, limit int) (*store.ChunkLook, error)
	// ApplyChunks applies a step, or reports that it does not apply: something has changed since the look. A step whose reply was
	// lost is not applied again.
	ApplyChunks(ctx context.Context, s *store.ChunkStep) (bool, error)
}
