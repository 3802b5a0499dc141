package history

import (
	"cmp"
	"slices"
	"time"
)

// LeaseCall is one call of a process that takes named leases, as that process wrote it down. A process writes a call down when it
// has the reply, except for the intent to release a lease, after which it must not rely on the lease whatever comes.
type LeaseCall struct {
	Asked  time.Duration `json:"asked"` // monotonic clock, before the call
	At     time.Duration `json:"at"`    // after the reply
	Holder string        `json:"holder"`
	Name   string        `json:"name"` // of the lease
	Verb   LeaseVerb     `json:"verb"`
	Fence  int64         `json:"fence,omitempty"` // 0: none
	TTL    time.Duration `json:"ttl,omitempty"`
	Answer LeaseAnswer   `json:"answer,omitempty"`
}

// LeaseVerb is what a process asks for.
type LeaseVerb string

// The calls.
const (
	Acquire   LeaseVerb = "acquire"
	Renew     LeaseVerb = "renew"
	Hold      LeaseVerb = "hold"      // and makes an effect in the same transaction
	Releasing LeaseVerb = "releasing" // it is about to release it: this is no call
	Release   LeaseVerb = "release"
)

// LeaseAnswer is what became of a call.
type LeaseAnswer string

// The answers.
const (
	Granted  LeaseAnswer = "granted"
	Denied   LeaseAnswer = "denied"  // of acquire: another has it
	Lost     LeaseAnswer = "lost"    // the lease is not held with that fence any more
	Failed   LeaseAnswer = "failed"  // the store said that it did nothing
	NoAnswer LeaseAnswer = "unknown" // whether it happened is not known
)

// AddLeaseCall appends a call.
func (l *Log) AddLeaseCall(c LeaseCall) { l.write(c) }

// ReadLeaseCalls reads a log of calls in the order of their replies.
func ReadLeaseCalls(path string) (all []LeaseCall, err error) {
	_, err = readLines(path, 0, func(c LeaseCall) { all = append(all, c) })
	slices.SortStableFunc(all, func(a, b LeaseCall) int { return cmp.Compare(a.At, b.At) })
	return all, err
}

// LeaseStep is one step of a lease's life. It was written down in the transaction that made it, while that had the lease's row
// locked: so the steps of a name have their order.
type LeaseStep struct {
	Serial int64
	Name   string
	Fence  int64
	Holder string
	What   string
}

// What a step is.
const (
	LeaseTaken  = "taken"
	LeaseFree   = "free"   // its row was removed
	LeaseEffect = "effect" // made by its holder in a transaction with hold_lease
)

// Leases is all that is known of named leases.
type Leases struct {
	Calls []LeaseCall // in the order of At
	Steps []LeaseStep // in the order of Serial
}
