package store

import (
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// ScheduleSpec is what a schedule declares, as it stands in HCL and in the columns of the table schedule. All of it is text, so
// that package schedule checks both in one place. "" is the default of a field.
type ScheduleSpec struct {
	Name string `json:"name"`
	Task string `json:"task"` // row type of what it inserts

	Cron  string `json:"cron,omitempty"`  // exactly one of these three is set
	Every string `json:"every,omitempty"` // a duration, between slots
	After string `json:"after,omitempty"` // a duration, from the end of one task to the next

	Timezone string          `json:"timezone,omitempty"` // of Cron
	Payload  json.RawMessage `json:"payload,omitempty"`  // an object; nil: {}
	Jitter   string          `json:"jitter,omitempty"`   // a duration

	From    string `json:"from_at,omitempty"`  // RFC 3339
	Until   string `json:"until_at,omitempty"` // RFC 3339
	Missed  string `json:"missed,omitempty"`   // one, all or none
	CatchUp string `json:"catch_up,omitempty"` // a duration
	Overlap string `json:"overlap,omitempty"`  // skip or queue
}

// Schedule is a schedule as a look finds it: what it declares, where it stands, and what became of its last task. All times are
// UTC by the store's clock; zero: none. Slots, and with them Cursor, LastSlot and Queued, are whole milliseconds, which both
// stores keep exactly.
type Schedule struct {
	ScheduleSpec

	Version int64     `json:"version"`              // rises with each change of the row by an agent, an operator or a declaration
	Created time.Time `json:"created_at"`           // when it was first declared
	Cursor  time.Time `json:"cursor_at,omitzero"`   // all slots through this one are decided
	Queued  time.Time `json:"queued_slot,omitzero"` // a slot that is decided to fire and waits

	LastSlot time.Time `json:"last_slot,omitzero"`        // of the last task
	LastTask task.ID   `json:"last_task,omitempty"`       // 0: there was none yet
	LastAt   time.Time `json:"last_inserted_at,omitzero"` // when its row was inserted; zero: the row is past its retention
	// LastLive: its row is live, or it is in the archive with a lease_until that is still in the future, because how its attempt
	// ended is not known.
	LastLive bool      `json:"last_live,omitempty"`
	LastEnd  time.Time `json:"last_ended_at,omitzero"` // or that lease_until if it is later; zero where LastLive, and past its retention
}

// Sources of schedules.
const (
	SourceSQL = "sql" // a row that an application inserted
	SourceHCL = "hcl" // declared by agents' configurations
)

// ScheduleInfo is a schedule as operators see it. All times are UTC by the store's clock; zero: none.
type ScheduleInfo struct {
	Schedule

	Source      string       `json:"source"`
	NextAt      time.Time    `json:"next_at,omitzero"`       // when an agent looks at it again; zero: never
	LastBy      string       `json:"last_by,omitempty"`      // name of the agent that inserted the last task
	LastState   task.State   `json:"last_state,omitempty"`   // of the last task; "": its row is past its retention
	LastOutcome task.Verdict `json:"last_outcome,omitempty"` // of its last attempt
	LastError   string       `json:"last_error,omitempty"`
	MissedSlots int64        `json:"missed_slots"` // that did not fire
	PausedAt    time.Time    `json:"paused_at,omitzero"`
	PausedBy    string       `json:"paused_by,omitempty"`
	ParkedAt    time.Time    `json:"parked_at,omitzero"` // no present agent declares it
	Invalid     string       `json:"invalid,omitempty"`  // why agents cannot use it
}

// ScheduleFilter says which schedules a list has.
type ScheduleFilter struct {
	Name  string // only this one; "": all
	From  string // of all: those from this name on, in the store's order of names; "": from the first one on
	Limit int    // PageSize
}

// ScheduleList is a list of schedules.
type ScheduleList struct {
	Now  time.Time // the store's clock
	List []ScheduleInfo
}

// DueSchedules is what a look for due schedules finds.
type DueSchedules struct {
	List   []Schedule // those with next_at <= Now that agents may fire (not paused, parked or invalid), the longest due first
	Now    time.Time  // the store's clock
	NextAt time.Time  // the earliest next_at after Now of those that agents may fire; zero: there is none
}

// AsideVerb says why rows are inserted beside a schedule's course. "": they are not.
type AsideVerb string

// What operators do beside a schedule's course.
const (
	AsideFire     AsideVerb = "fire"     // one row, for the time of now
	AsideBackfill AsideVerb = "backfill" // rows for slots that have passed or come
)

// FiringRow is a task that a schedule inserts.
type FiringRow struct {
	Slot  time.Time // the time that it stands for: "slot" in its payload, RFC 3339 UTC
	RunAt time.Time // when it is due: the slot and its jitter
}

// Firing is what becomes of one schedule. It applies where the row still has the version that the look returned, and raises it.
type Firing struct {
	Name    string
	Version int64
	By      string // name of the agent (column last_by, where it inserts a row); where Aside, who requests it ("": not given)

	// Aside: rows are inserted beside the schedule's course, of paused, parked and invalid ones, too. Nothing of the schedule
	// changes, its version included: so a repeat inserts the rows again. Where it inserts any, the audit notes By and how many, under
	// this verb. Where the store refuses a row, ApplyFirings returns an *InputError and applies nothing.
	Aside AsideVerb

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
