package store

import "time"

// Bounds of one call that spills.
const (
	SpillMost    = 1000   // rows that one call spills at most
	SpillRegions = 10_000 // regions of a row type that it looks at, in the order of their names: more are not supported
)

// Spill is after how long the rows of one row type may be taken by agents of other regions than theirs.
type Spill struct {
	Type  string
	After time.Duration // since a row was first due; > 0
}
