// Package script is what rows of the fault suite carry: what each of their attempts does.
package script

import "time"

// Deed is what one attempt does.
type Deed string

// What attempts do. Those that end well come first.
const (
	OK    Deed = "ok"    // ends well at once
	Work  Deed = "work"  // pings for a while and ends well
	Flood Deed = "flood" // pings far too often and ends well
	Pause Deed = "pause" // pings once, is silent for a while, and ends well

	Fail   Deed = "fail"
	Reject Deed = "reject"
	Later  Deed = "later" // asks to come later
	Cut    Deed = "cut"   // ends without a word: the connection is cut, the process kills itself

	Hang     Deed = "hang"     // says nothing, and does nothing
	Stubborn Deed = "stubborn" // the same, and does not listen when it is told to stop
	Late     Deed = "late"     // goes on after its lease, makes its effect and answers well
	PingOn   Deed = "ping-on"  // pings for ever
	Endless  Deed = "endless"  // answers without end
	Forge    Deed = "forge"    // pings in the name of others, and with what was no token, and never in its own
	Orphan   Deed = "orphan"   // ends well, and leaves a process in its group
	Silent   Deed = "silent"   // is accepted, and never heard of again
)

// How long things take.
const (
	Step = 250 * time.Millisecond // between two pings
	Rest = 4 * time.Second        // what pauses
	Long = 5 * time.Minute        // what hangs
)

// Payload is a row's.
type Payload struct {
	Key    string `json:"key"`
	Script []Deed `json:"script"`
}

// Of is what the attempt of that number does; the last deed of a script is for all that follow.
func (p Payload) Of(attempt int) Deed {
	if len(p.Script) == 0 {
		return OK
	}
	return p.Script[min(max(attempt, 1), len(p.Script))-1]
}

// Envelope is what the suite needs of the protocol's.
type Envelope struct {
	Type string  `json:"type"`
	Data Payload `json:"data"`
	Task struct {
		ID      int64  `json:"id"`
		Fence   int64  `json:"fence"`
		Attempt int    `json:"attempt"`
		PingURL string `json:"ping_url"`
	} `json:"task"`
}
