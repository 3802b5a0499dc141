package store

// RegionOrphan are due rows of a region and a type that no present agent with workers of that region declares.
type RegionOrphan struct {
	Region string `json:"region"`
	Type   string `json:"type"`
	Due    int64  `json:"due"`            // none that waits for a lock, its turn or others
	More   bool   `json:"more,omitempty"` // there may be more: only the first RegionLooked rows were looked at
}

// Bounds of a look for such rows. It visits each pair of type and region of which rows wait, and of those pairs that no agent claims from the
// rows that were due first.
const (
	RegionSteps  = 2000 // pairs of type and region
	RegionPairs  = 200  // of these, those that no agent claims from
	RegionLooked = 5000 // rows of each
)
