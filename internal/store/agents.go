package store

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// AgentState says what a session does, by its last heartbeat.
type AgentState string

// The states of a session.
const (
	AgentWorking  AgentState = "working"  // it claims tasks
	AgentCordoned AgentState = "cordoned" // it claims none until it is uncordoned; what runs goes on
	AgentDraining AgentState = "draining" // it claims none, and exits when what runs has ended
	AgentObserver AgentState = "observer" // it has no workers
	AgentAbsent   AgentState = "absent"   // no heartbeat for longer than its presence
	AgentLeft     AgentState = "left"     // it has exited
)

// AgentInfo is a session as people see it. Times are the store's clock.
type AgentInfo struct {
	Session       task.Session `json:"session"`
	Name          string       `json:"name"`
	State         AgentState   `json:"state"`
	Region        string       `json:"region,omitempty"`
	Version       string       `json:"version"`
	Config        string       `json:"config"` // hash of the configuration
	Workers       int          `json:"workers"`
	Running       int          `json:"running"`         // tasks in hand at the last heartbeat: attempts, and rows that it has claimed ahead of them
	Done          int64        `json:"done"`            // attempts that have ended since the start
	DonePerMinute int64        `json:"done_per_minute"` // of these, those of the last minute
	Types         []string     `json:"types"`           // row types that it declares, aliases included
	StartedAt     time.Time    `json:"started_at"`
	SeenAt        time.Time    `json:"seen_at"`              // the last heartbeat
	OrderedBy     string       `json:"ordered_by,omitempty"` // who has cordoned or drained it, where that is known
	Condition     *Condition   `json:"condition,omitempty"`  // at the last heartbeat; nil: nothing is the matter
}

// AgentOrder is what an operator wants of sessions.
type AgentOrder string

// The orders. An agent learns of one with its next heartbeat, within 2 s.
const (
	Cordon   AgentOrder = "cordon"
	Uncordon AgentOrder = "uncordon"
	Drain    AgentOrder = "drain" // cannot be taken back
)

// AgentOrdered is what an order changed of one session.
type AgentOrdered struct {
	Session task.Session `json:"session"`
	Name    string       `json:"name"`
	State   AgentState   `json:"state"` // that it is in, or will be once it has learned of the order
	Changed bool         `json:"changed"`
}

// On returns the state that a present session with those workers gets by the order if it had another one ("": none), and whether
// that changes anything.
func (o AgentOrder) On(had AgentOrder, workers int) (state AgentState, changed bool) {
	want := o
	if o == Uncordon {
		want = ""
	}
	switch changed = had != want && had != Drain; {
	case had == Drain || want == Drain:
		state = AgentDraining
	case workers == 0:
		state = AgentObserver
	case want == Cordon:
		state = AgentCordoned
	default:
		state = AgentWorking
	}
	return state, changed
}
