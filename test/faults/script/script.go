// Package script is what rows of the fault suite carry: what each of their attempts does.
package script

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Deed is what one attempt does.
type Deed string

// What attempts do. Those that end well come first.
const (
	OK    Deed = "ok"    // ends well at once
	Work  Deed = "work"  // pings for a while and ends well
	Flood Deed = "flood" // pings far too often and ends well
	Pause Deed = "pause" // pings once, is silent for a while, and ends well
	Nap   Deed = "nap"   // ends well a little later; endpoints only

	Fail   Deed = "fail"
	Reject Deed = "reject"
	Later  Deed = "later" // asks to come later
	Cut    Deed = "cut"   // ends without a word: the connection is cut, the process kills itself

	Hang     Deed = "hang"     // says nothing, and does nothing
	Stubborn Deed = "stubborn" // the same, and ignores requests to stop
	Late     Deed = "late"     // goes on after its lease, makes its effect and answers well
	PingOn   Deed = "ping-on"  // pings for ever
	Endless  Deed = "endless"  // answers without end
	Forge    Deed = "forge"    // pings in the name of others, and with what was no token, and never in its own
	Orphan   Deed = "orphan"   // ends well, and leaves a process in its group
	Silent   Deed = "silent"   // is accepted, and reports nothing again

	// Of workers, and of requests with several attempts. Those that end well come first.
	Stray Deed = "stray" // writes lines that mean nothing, and ends well
	Twice Deed = "twice" // ends well, and has another last line a little later
	Torn  Deed = "torn"  // writes half of a last line, and its process kills itself, or cuts the connection

	// Of requests with several attempts only.
	Poison Deed = "poison" // the whole request fails
	Busy   Deed = "busy"   // the whole request is asked to come later
	Mute   Deed = "mute"   // the response ends well, without a line of it

	// Of workers only. Those that end well come first.
	Parting Deed = "parting" // ends well, and its process kills itself

	Quit   Deed = "quit"   // exits without a last line, with exit code 0
	Faint  Deed = "faint"  // its process kills itself before it begins
	Echo   Deed = "echo"   // repeats the last line of the process's attempt before, and writes none of its own
	Nobody Deed = "nobody" // its last line names no attempt
	Litter Deed = "litter" // fails, and leaves a process behind
	Freeze Deed = "freeze" // its process stops itself
	Shut   Deed = "shut"   // closes descriptor 3, and goes on
)

// How long things take.
const (
	Step = 250 * time.Millisecond // between two pings
	Rest = 4 * time.Second        // what pauses
	Doze = 200 * time.Millisecond // what naps
	Long = 5 * time.Minute        // what hangs
)

// Payload is a row's. Its rollback_payload, and the rollback object of its result, are such, too.
type Payload struct {
	Key      string `json:"key"`
	Script   []Deed `json:"script,omitempty"`
	Check    []Deed `json:"check,omitempty"`    // what is asked before an attempt
	Rollback []Deed `json:"rollback,omitempty"` // what attempts to roll it back do

	After   *string `json:"after,omitempty"` // of a chunk
	Through string  `json:"through,omitempty"`
	Rows    int     `json:"rows,omitempty"`
}

// Range is the range of a chunk, whose keys are positive numbers: above after and up to through.
func (p *Payload) Range() (after, through int64) {
	if p.After != nil {
		after, _ = strconv.ParseInt(*p.After, 10, 64)
	}
	through, _ = strconv.ParseInt(p.Through, 10, 64)
	return after, through
}

// of is what the attempt of that number does; the last deed of a script is for all that follow.
func of(all []Deed, attempt int) Deed {
	if len(all) == 0 {
		return OK
	}
	return all[min(max(attempt, 1), len(all))-1]
}

// Envelope is what the suite needs of the protocol's.
type Envelope struct {
	Type string  `json:"type"`
	Data Payload `json:"data"`
	Task struct {
		ID      int64  `json:"id"`
		Phase   string `json:"phase"`
		Fence   int64  `json:"fence"`
		Attempt int    `json:"attempt"`
		PingURL string `json:"ping_url"`

		WebhookID   string `json:"webhook_id"` // where it is one of several in a request
		Traceparent string `json:"traceparent"`
	} `json:"task"`
}

// The phases of an attempt, as envelopes have them.
const (
	Check    = "check"
	Rollback = "rollback"
)

// Does is what this attempt does.
func (e *Envelope) Does() Deed {
	switch e.Task.Phase {
	case Check:
		return of(e.Data.Check, e.Task.Attempt)
	case Rollback:
		return of(e.Data.Rollback, e.Task.Attempt)
	}
	return of(e.Data.Script, e.Task.Attempt)
}

// Phase is the attempt's, as events have it.
func (e *Envelope) Phase() string {
	if e.Task.Phase == "run" {
		return ""
	}
	return e.Task.Phase
}

// Result returns the result of an attempt that ends well. It has the script of the task's rollback.
func (e *Envelope) Result() string {
	if len(e.Data.Rollback) == 0 {
		return fmt.Sprintf(`{"id": %d, "fence": %d}`, e.Task.ID, e.Task.Fence)
	}
	rollBack, err := json.Marshal(Payload{Key: e.Data.Key, Rollback: e.Data.Rollback})
	if err != nil {
		panic(err) // these are strings
	}
	return fmt.Sprintf(`{"id": %d, "fence": %d, "rollback": %s}`, e.Task.ID, e.Task.Fence, rollBack)
}

// Failure returns the error of an attempt that ends badly.
func (e *Envelope) Failure(how string) string {
	return fmt.Sprintf("%s, says the line of %d/%d", how, e.Task.ID, e.Task.Fence)
}
