package chunk

import "github.com/leasehold/leasehold/internal/store"

// Spec is what a plan declares.
type Spec = store.ChunkSpec

// Size is how many rows a chunk has.
type Size = store.ChunkSize
