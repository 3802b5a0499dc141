package store

// ChunkKey is a key of a table that is cut into chunks, as text from which its database makes exactly the same value again. Only
// that database compares keys.
type ChunkKey string

// ChunkRange is the rows with keys above After and up to Through: (after, through]. A bound that is nil is open.
type ChunkRange struct {
	After   *ChunkKey `json:"after"`
	Through *ChunkKey `json:"through"`
}
