package store

import (
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// ScheduleSpec is what a schedule declares, as it stands in HCL and in the columns of the table schedule. All of it is text, so
// that package schedule checks both in one place. "" is the default of a field.
type ScheduleSpec struct {
	Name string
	Task string // row type of what it inserts

	Cron  string // exactly one of these three is set
	Every string // a duration, between slots
	After string // a duration, from the end of one task to the next

	Timezone string          // of Cron
	Payload  json.RawMessage // an object; nil: {}
	Jitter   string          // a duration

	From, Until string // RFC 3339
	Missed      string // one, all or none
	CatchUp     string // a duration
	Overlap     string // skip or queue
}

// Schedule is a schedule as a look finds it: what it declares, where it stands, and what became of its last task. All times are
// UTC by the store's clock; zero: none. Slots, and with them Cursor, LastSlot and Queued, are whole milliseconds, which both
// stores keep exactly.
type Schedule struct {
	ScheduleSpec

	Version int64     // rises with each change of the row by an agent, an operator or a declaration
	Created time.Time // when it was first declared
	Cursor  time.Time // all slots through this one are decided
	Queued  time.Time // a slot that is decided to fire and waits (column queued_slot)

	LastSlot time.Time // of the last task
	LastTask task.ID   // 0: there was none yet
	LastAt   time.Time // when its row was inserted; zero: the row is past its retention
	// LastLive: its row is live, or it is in the archive with a lease_until that is still in the future, because how its attempt
	// ended is not known.
	LastLive bool
	LastEnd  time.Time // when it ended, or that lease_until if it is later; zero where LastLive, and past its retention
}

// DueSchedules is what a look for due schedules finds.
type DueSchedules struct {
	List   []Schedule // those with next_at <= Now that agents may fire (not paused, parked or invalid), the longest due first
	Now    time.Time  // the store's clock
	NextAt time.Time  // the earliest next_at after Now of those that agents may fire; zero: there is none
}

// FiringRow is a task that a schedule inserts.
type FiringRow struct {
	Slot  time.Time // the time that it stands for: "slot" in its payload, RFC 3339 UTC
	RunAt time.Time // when it is due: the slot and its jitter
}

// Firing is what becomes of one schedule. It applies where the row still has the version that the look returned, and raises it.
type Firing struct {
	Name    string
	Version int64
	By      string // name of the agent (column last_by, where it inserts a row)

	// Rows are inserted in this order, with the row type and the payload of the schedule's row, and with created_by
	// 'schedule:NAME'. The last of them becomes last_slot and last_task; without any those stay.
	Rows   []FiringRow
	Cursor time.Time
	Queued time.Time // zero: none
	Missed int       // slots that were decided not to fire: added to missed_slots
	NextAt time.Time // when to look again; zero: never

	// Invalid says why agents cannot use the row; "": they can. Then nothing but invalid is set, next_at becomes NULL, and the
	// row is left alone until it is declared anew.
	Invalid string
}
