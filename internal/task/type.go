package task

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"syscall"
	"time"
)

// What a failure does to the rows behind it in its sequence.
const (
	SequenceBlocks    = "block"    // they wait until it is resolved
	SequenceContinues = "continue" // they go on
)

// Type is a declared task type.
type Type struct {
	Name    string
	Aliases []string // rows of these types are claimed too
	Workers int      // attempts at once on this agent; 0: as many as the agent has
	Limit   int      // attempts at once on all agents together; 0: no bound
	Rate    float64  // starts in a second, on all agents together; 0: no bound
	Burst   int      // how many of them at once; with a rate at least 1
	// Weights are how many rows in a row a tenant may take in its turn, 1 where it is not named; nil: nothing is declared of tenants.
	Weights map[string]int
	Tenant  TenantLimit
	// OnFailure is what a failure does to the rows behind it in its sequence, SequenceBlocks or SequenceContinues; "": nothing is declared.
	OnFailure string
	Policy    Policy
	// SpillAfter is after how long agents of other regions may take its rows, since they were first due; 0: never.
	SpillAfter time.Duration
	// Redact names the members of documents that are masked where tasks are shown. What attempts get has them all.
	Redact   []string
	Target   Target // of the run phase; never nil
	Check    Target // asked before each run attempt whether the task is done already; nil: not asked
	Rollback Target // of the rollback phase; nil: the type cannot be rolled back
	Source   string // "file:line" of the declaration, for messages
}

// TenantLimit bounds the attempts of each tenant of a type, on all agents together.
type TenantLimit struct {
	Limit int     // attempts at once; 0: no bound
	Rate  float64 // starts in a second; 0: no bound
	Burst int     // how many of them at once; with a rate at least 1
}

// Names lists the row types that are claimed for this declaration: its name, then its aliases.
func (t *Type) Names() []string { return append([]string{t.Name}, t.Aliases...) }

// Targets lists where attempts of the type go, in whatever phase.
func (t *Type) Targets() []Target {
	return slices.DeleteFunc([]Target{t.Target, t.Check, t.Rollback}, func(to Target) bool { return to == nil })
}

// TargetOf is where attempts of a phase go; nil where the type has none.
func (t *Type) TargetOf(p Phase) Target {
	switch p {
	case Check:
		return t.Check
	case Rollback:
		return t.Rollback
	case Run:
	}
	return t.Target
}

// AtOnce is how many attempts can run at once on one agent: Workers (0: not bounded by the type), but where all of them run in
// the processes of one worker, no more than these.
func (t *Type) AtOnce() int {
	c, ok := t.Target.(*Command)
	if !ok || c.Worker == nil || t.Check != nil || t.Rollback != nil {
		return t.Workers
	}
	if t.Workers == 0 {
		return c.Worker.Processes
	}
	return min(t.Workers, c.Worker.Processes)
}

// Hash identifies the policy of the type with that name: the first eight bytes of the SHA-256 of the name, a zero byte and
// the policy's JSON. So of two types with equal policies each has its own, and is known by its name.
func (p *Policy) Hash(of string) PolicyHash {
	body, err := json.Marshal(p)
	if err != nil {
		panic("a policy is numbers and strings and always marshals: " + err.Error())
	}
	sum := sha256.Sum256(append([]byte(of+"\x00"), body...))
	return PolicyHash(binary.BigEndian.Uint64(sum[:8]) &^ (1 << 63))
}

// Template is a string that a declaration computes for each row. Its error names file and line of the template.
type Template func(*Task) (string, error)

// Target is where attempts go: a Webhook or a Command, nothing else.
type Target interface{ target() }

// Webhook is an HTTP target.
type Webhook struct {
	URL            Template // absolute, http or https; row data is escaped into path and query only
	Method         string   // POST, PUT or PATCH
	Headers        map[string]Template
	Secrets        []string // each signs; none: unsigned. Standard Webhooks form, "whsec_" optional
	Body           Body
	IdempotencyKey bool  // send the webhook-id as Idempotency-Key too
	Permanent      []int // statuses that are rejected rather than failed
	Async          bool  // a 202 means that the task goes on without a connection
	CancelGrace    time.Duration

	Batch *Batch // nil: a request for each attempt
}

// Body is what a Webhook sends.
type Body string

// The kinds of body.
const (
	BodyEnvelope Body = "envelope"
	BodyPayload  Body = "payload"
)

// Command is a subprocess target.
type Command struct {
	Argv []Argument          // at least one; Argv[0] is found in PATH, or relative to Dir where it has a slash
	Dir  string              // absolute
	Env  map[string]Template // added to the allowlist

	User       string // "": the agent's own
	ExitCodes  map[int]Verdict
	StopSignal syscall.Signal
	StopGrace  time.Duration

	Worker *Worker // nil: a process for each attempt
}

// Worker says how one process of a Command runs many attempts, one after another. Argv and Env use nothing of a row then.
type Worker struct {
	Processes int           // at most, on one agent; >= 1
	Idle      time.Duration // a process that ran nothing for so long is ended
	MaxTasks  int           // a process is replaced after so many attempts; 0: never
	Ready     time.Duration // how long a process may take from its start until it is ready
}

// Argument is one argument of a Command. One that row data turned into something starting with "-" is refused,
// unless the template itself starts so.
type Argument struct {
	Template
	Dash bool // the template itself starts with "-"
}

func (*Webhook) target() {}
func (*Command) target() {}
