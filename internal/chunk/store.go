package chunk

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Declarations is what a Loop needs of the store beside.
type Declarations interface {
	// DeclareChunks notes that a session declares these plans, and no others, and puts the newest declarations of all present
	// sessions in force: one that was never loaded before is newer than all others. A plan that does not exist is inserted.
	DeclareChunks(ctx context.Context, s task.Session, list []store.ChunkDeclaration) (store.DeclaredChunks, error)
}

// Store is what an Engine needs of the store.
type Store interface {
	// LookPlan returns a plan and at most limit of its obstacles, and locks nothing.
	LookPlan(ctx context.Context, name string, limit int) (*store.ChunkLook, error)
	// ApplyChunks applies a step, or reports that it does not apply: something has changed since the look. A step whose reply was
	// lost is not applied again.
	ApplyChunks(ctx context.Context, s *store.ChunkStep) (bool, error)
}

// Tasks is what a Splitter needs of the store.
type Tasks interface {
	// ChunkTask returns the live chunk of a task, and locks nothing; store.ErrNoChunk where the task is none, or its batch stops.
	ChunkTask(ctx context.Context, id task.ID) (*store.ChunkTask, error)
}
