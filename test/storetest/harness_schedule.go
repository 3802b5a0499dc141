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
	// UpsertSchedule is AddSchedule with ON CONFLICT (name) DO UPDATE of all other columns that applications may set.
	UpsertSchedule(t testing.TB, spec store.ScheduleSpec) error
	// ChangeSchedule is an application's UPDATE of all these columns but the name. "" is NULL. Where there is no schedule of that
	// name, nothing happens.
	ChangeSchedule(t testing.TB, spec store.ScheduleSpec) error
	// DeleteSchedule is an application's call of remove_schedule. Where there is no schedule of that name, nothing happens.
	DeleteSchedule(t testing.TB, name string) error
	// DeclareSchedule inserts a schedule of HCL, or changes it, as an agent does. number is that of the declaration.
	DeclareSchedule(t testing.TB, spec store.ScheduleSpec, number int64) error
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

// declaredColumn is a column that an application sets.
type declaredColumn struct{ name, value string }

func declaredColumns(spec store.ScheduleSpec) []declaredColumn {
	return []declaredColumn{
		{"name", spec.Name}, {"task", spec.Task}, {"cron", spec.Cron}, {"every", spec.Every}, {"after", spec.After},
		{"timezone", spec.Timezone}, {"payload", string(spec.Payload)}, {"jitter", spec.Jitter}, {"from_at", spec.From},
		{"until_at", spec.Until}, {"missed", spec.Missed}, {"catch_up", spec.CatchUp}, {"overlap", spec.Overlap},
	}
}

// InsertSchedule returns the INSERT of a schedule with the columns that it sets, and their values.
func InsertSchedule(spec store.ScheduleSpec, place func(n int) string) (text string, values []any) {
	var names, places []string
	for _, c := range declaredColumns(spec) {
		if c.value != "" || c.name == "name" || c.name == "task" {
			names, values = append(names, c.name), append(values, c.value)
			places = append(places, place(len(values)))
		}
	}
	return "INSERT INTO schedule (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(places, ", ") + ")", values
}

// UpsertSchedule is InsertSchedule, or changes the schedule of that name to what the INSERT would have inserted.
func UpsertSchedule(spec store.ScheduleSpec, place func(n int) string) (text string, values []any) {
	text, values = InsertSchedule(spec, place)
	var sets []string
	for _, c := range declaredColumns(spec)[1:] {
		sets = append(sets, c.name+" = excluded."+c.name)
	}
	return text + " ON CONFLICT (name) DO UPDATE SET " + strings.Join(sets, ", "), values
}

// UpdateSchedule returns the UPDATE of all columns of a schedule that applications may change, and their values.
func UpdateSchedule(spec store.ScheduleSpec, place func(n int) string) (text string, values []any) {
	var sets []string
	for _, c := range declaredColumns(spec)[1:] {
		value := any(c.value)
		if c.value == "" {
			value = map[string]any{"payload": "{}", "task": ""}[c.name] // nil: NULL
		}
		values = append(values, value)
		sets = append(sets, c.name+" = "+place(len(values)))
	}
	values = append(values, spec.Name)
	return "UPDATE schedule SET " + strings.Join(sets, ", ") + " WHERE name = " + place(len(values)), values
}
