// Package fault lets the fault suite (test/faults) break an agent on purpose: switch off a safeguard, to see that the
// suite notices, kill the process at a point in the code that cannot be hit from outside, and have the claims of all agents
// bear the same numbers, which else they do by chance.
//
// It does so only in a binary built with the tag `faults`. In every other, Off is constantly false, Point is empty, Number
// gives what it is given, and the compiler leaves nothing of them.
package fault

// Safeguard is something that keeps a promise, and can be switched off.
type Safeguard string

// The safeguards. A test looks that the suite turns red without each of them.
const (
	// Fence: renewals and settlements match the fence of their claim.
	Fence Safeguard = "fence"
	// Session: a claim whose reply was lost is read back by session and number, not by number alone.
	Session Safeguard = "session"
	// PingAge: the store reckons a lease from the ping, not from when the ping was written.
	PingAge Safeguard = "ping-age"
	// SelfStop: an agent that cannot reach its store stops its work before its presence runs out.
	SelfStop Safeguard = "self-stop"
	// Guardian: a process of its own kills what a dead or frozen agent has started.
	Guardian Safeguard = "guardian"
	// ReadToEnd: nothing of a claim starts before the claim was read to its end, commit included.
	ReadToEnd Safeguard = "read-to-end"
	// Repeat: a settlement that is repeated finds itself done.
	Repeat Safeguard = "repeat"
	// Hear: a notification of a cancel has the agent release the rows of it that it has claimed ahead.
	Hear Safeguard = "hear"
	// OwnLine: a worker's last line settles only the attempt that it names.
	OwnLine Safeguard = "own-line"
	// Shared: the failure of a request with several attempts is charged to none of them.
	Shared Safeguard = "shared"
)

// Safeguards lists all of them.
func Safeguards() []Safeguard {
	return []Safeguard{Fence, Session, PingAge, SelfStop, Guardian, ReadToEnd, Repeat, Hear, OwnLine, Shared}
}
