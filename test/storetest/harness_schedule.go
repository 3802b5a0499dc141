package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Scheduler is what the suite must be able to do to schedules from outside.
type Scheduler interface {
	// AddSchedule inserts a schedule as an application would, by plain INSERT with an application's rights and nothing more. ""
	// is left out. Its error is the store's refusal.
	AddSchedule(t testing.TB, spec store.ScheduleSpec) error
	// HaltSchedule makes a schedule one that agents leave alone: "paused" or "parked".
	HaltSchedule(t testing.TB, name, how string)
	// ShownSchedule reads a row of the view schedules, with an application's rights.
	ShownSchedule(t testing.TB, name string) ShownSchedule
}

// ShownSchedule is what the view schedules says beyond what a look finds.
type ShownSchedule struct {
	Missed   int64
	NextAt   time.Time // zero: never
	LastSlot time.Time // zero: none
	LastTask task.ID   // 0: none
	LastBy   string
	Queued   time.Time
	Invalid  string
}

// InsertSchedule returns the INSERT of a schedule with the columns that it sets, and their values.
func InsertSchedule(spec store.ScheduleSpec, place func(n int) string) (text string, values []any) {
	var names, places []string
	for _, c := range []struct{ name, value string }{
		{"name", spec.Name}, {"task", spec.Task}, {"cron", spec.Cron}, {"every", spec.Every}, {"after", spec.After},
		{"timezone", spec.Timezone}, {"payload", string(spec.Payload)}, {"jitter", spec.Jitter}, {"from_at", spec.From},
		{"until_at", spec.Until}, {"missed", spec.Missed}, {"catch_up", spec.CatchUp}, {"overlap", spec.Overlap},
	} {
		if c.value != "" || c.name == "name" || c.name == "task" {
			names, values = append(names, c.name), append(values, c.value)
			places = append(places, place(len(values)))
		}
	}
	return "INSERT INTO schedule (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(places, ", ") + ")", values
}
