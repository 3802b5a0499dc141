package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Declaration is a schedule as configurations declare it. A declaration that was never loaded before is newer than all others: it
// gets the next number when an agent loads it first, and keeps that for ever.
type Declaration struct {
	Number int64
	Spec   ScheduleSpec
}

// DeclarationHash tells declarations of one schedule apart: the SHA-256 of all that the Spec says, in hexadecimal digits.
func DeclarationHash(s ScheduleSpec) string {
	text, _ := json.Marshal(s) // strings, and a payload that was JSON
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// UnsettledSchedule is a name whose schedule is not what the configurations of the present agents declare.
type UnsettledSchedule struct {
	Name    string
	Present []Declaration // by present agents, by number; none: it is to be parked

	Exists   bool
	Source   string // from here on: of the schedule that exists
	Task     string
	Declared int64 // number of the declaration in force; 0: of source sql
	Version  int64
	Parked   bool
	Due      bool // it may fire now
}

// UnsettledSchedules is a page of what is unsettled.
type UnsettledSchedules struct {
	Now  time.Time           // the store's clock
	List []UnsettledSchedule // in the store's order of names
}

// ScheduleChange has a schedule become what is declared.
type ScheduleChange struct {
	Name    string
	Exists  bool  // else it is inserted, unless a schedule of that name has come meanwhile
	Version int64 // that was seen: it is changed only if it still has it
	// To is put in force, and the schedule is parked no longer. Where it is in force already, nothing else changes. nil: the
	// schedule is parked, unless a present agent declares it.
	To *Declaration
}
