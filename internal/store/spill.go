package store

import (
	"time"
)

// SpillMost is how many rows one call spills at most.
const SpillMost = 1000

// Spill is after how long the rows of one row type may be taken by agents of other regions than theirs.
type Spill struct {
	Type  string
	After time.Duration // since a row was first due; > 0
}
