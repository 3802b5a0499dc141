package ops

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
)

// ScheduleStore is what is read of schedules to show them.
type ScheduleStore interface {
	Schedules
	redactionStore
}

// Schedules is what operators' work with schedules needs of the store. ErrNoSchedule where there is none of that name. by names
// who requests a change, for display ("": not given).
type Schedules interface {
	// ListSchedules returns schedules that match, by name, and the store's clock. It locks nothing.
	ListSchedules(ctx context.Context, f store.ScheduleFilter) (store.ScheduleList, error)
	// PauseSchedule has agents leave a schedule alone. It reports whether it was not paused before.
	PauseSchedule(ctx context.Context, name, by string) (changed bool, err error)
	// ResumeSchedule has agents go on with a schedule: slots that came while it was paused were missed. It reports whether it was
	// paused.
	ResumeSchedule(ctx context.Context, name, by string) (changed bool, err error)
	// RemoveSchedule deletes a schedule. Its tasks stay. *RefusedError where a present agent declares it.
	RemoveSchedule(ctx context.Context, name, by string) error
	// ApplyFirings applies those firings whose schedules have the version that was seen, and reports which. Operators insert
	// rows beside the schedule's course (Firing.Aside), which the audit notes: a repeat inserts them again.
	ApplyFirings(ctx context.Context, list []store.Firing) (applied []bool, err error)
}
