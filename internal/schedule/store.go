// Package schedule turns recurring declarations into due rows. A Plan is a declaration, checked and compiled: it computes slots,
// and decides which of them fire. An Engine looks at the schedules that are due, decides, and has a store apply that; a Loop
// repeats it at the right times.
package schedule

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
)

// Store is what an Engine needs of the store. Each call is one short transaction and may be repeated.
type Store interface {
	// DueSchedules returns at most limit schedules that are due, the longest due first, and when the next one is. It locks
	// nothing.
	DueSchedules(ctx context.Context, limit int) (store.DueSchedules, error)
	// ApplyFirings applies each firing whose schedule has the same version as before, all in one transaction, and reports which
	// ones. A firing whose rows the store refuses is not applied; its schedule is marked invalid with the reason, and the others
	// are applied.
	ApplyFirings(ctx context.Context, list []store.Firing) (applied []bool, err error)
}
