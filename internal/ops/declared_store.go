package ops

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Declarations is what configurations declare.
type Declarations interface {
	// DeclareBlocks notes that a session declares these blocks, and no others. known is false where the store has no such session,
	// and then nothing was noted. A repeat changes nothing but when they were loaded last.
	DeclareBlocks(ctx context.Context, session task.Session, list []store.Block) (known bool, err error)
	// DeclaredBlocks lists what present sessions declare, by kind, name and number.
	DeclaredBlocks(ctx context.Context) ([]store.DeclaredBlock, error)
	// Declarations lists what present sessions declare, and the newest definition of each other block that was ever loaded, by kind, name
	// and number, store.DeclarationsListed at most.
	Declarations(ctx context.Context) ([]store.DeclaredBlock, error)
	// BlockHistory lists the definitions of a block that were ever loaded, the newest first, limit at most.
	BlockHistory(ctx context.Context, kind, name string, limit int) ([]store.DeclaredBlock, error)
}
