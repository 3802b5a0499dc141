// Package work is what a measured process and the process that measures it say to each other: a job in, a result out,
// as JSON. A contender written in another language speaks the same (see graphile/main.mjs).
package work

import (
	"strconv"
	"time"
)

// Kind is what is done for each row.
type Kind string

// The kinds of work.
const (
	Noop    Kind = "noop"    // nothing: the engine alone
	HTTP    Kind = "http"    // one POST of Body to Job.Target
	Many    Kind = "many"    // POSTs of PerRequest rows to Job.Target + Lines
	Exec    Kind = "exec"    // one /bin/true
	Worker  Kind = "worker"  // nothing, in a process of Job.Program that is started once
	Fair    Kind = "fair"    // one POST to Job.Target + Slow for each row of Types, one to Job.Target + Hang for others
	Brief   Kind = "brief"   // one POST to Job.Target + Briefly, with Job.Limit as the type's limit over all agents
	Latency Kind = "latency" // note the time since the row was inserted, which its payload contains
	Idle    Kind = "idle"    // what comes is done at once; the process works until it is asked to end
	Hold    Kind = "hold"    // rows are kept at work, so that every worker is taken; it ends like Idle
)

// Graph is how rows wait for each other.
type Graph string

// The graphs, of Job.Rows rows.
const (
	FanOut Graph = "fan-out" // all wait for the first
	FanIn  Graph = "fan-in"  // the last waits for all others
	Beside Graph = "beside"  // none waits
)

// Lasts reports whether the work has no end of its own.
func (k Kind) Lasts() bool { return k == Idle || k == Hold }

// Targets reports whether what does the work is called or started for it, in place of the benchmark.
func (k Kind) Targets() bool {
	return k == HTTP || k == Many || k == Exec || k == Worker || k == Fair || k == Brief
}

// HasProcesses reports whether the work is done by processes that are started for it.
func (k Kind) HasProcesses() bool { return k == Exec || k == Worker }

// Step is one process's part in a run.
type Step string

// The steps. Each is a process of its own, so that nothing of the first is measured in the second.
const (
	Setup Step = "setup" // make the schema in an empty database and insert Job.Rows rows of TaskType
	Run   Step = "run"   // say ready, wait for a line, work until nothing is left (or for the input's end), print the result
)

// TaskType is the type of the rows that are worked on.
const TaskType = "bench"

// HungType is the type of the rows of Fair whose target hangs. The others' are TaskType, "bench2", and so on, FairTypes of them.
const (
	HungType  = "hung"
	FairTypes = 9
)

// FairType is one of those, from 0 on.
func FairType(i int) string {
	if i == 0 {
		return TaskType
	}
	return TaskType + strconv.Itoa(i+1)
}

// PerRequest is how many rows there are in a request of Many.
const PerRequest = 100

// Paths below Job.Target, of endpoints that take 10 ms and 5 ms, that do not answer as long as the client is there, and that answer a line
// for each task.
const (
	Slow    = "/slow"
	Briefly = "/brief"
	Hang    = "/hang"
	Lines   = "/lines"
)

// Job is what a process gets on its standard input, in one line.
type Job struct {
	Step   Step   `json:"step"`
	Kind   Kind   `json:"kind"`
	URL    string `json:"url"`              // of the database: postgres://…, or sqlite:PATH
	Look   string `json:"look,omitempty"`   // the same without a pooler, to look whether rows are left; "": URL
	Rows   int    `json:"rows"`             // how many there are
	Hung   int    `json:"hung,omitempty"`   // of Fair: how many rows there are of HungType, inserted before the others
	Filled int    `json:"filled,omitempty"` // how many live rows were there before, none of which is to be done
	Target string `json:"target,omitempty"` // of HTTP: the server that answers
	// Program is what a worker's process runs: Python, Go or C.
	Program string `json:"program,omitempty"`
	// Compiled is the path of the program in C.
	Compiled string `json:"compiled,omitempty"`
	// Workers is how many rows are worked on at once; 0: what the contender finds best for the kind of work.
	Workers int `json:"workers,omitempty"`
	// Agents is how many engines share the work, each with a session of its own; 0: one.
	Agents int `json:"agents,omitempty"`
	// Limit is how many rows all engines together may work on at once; 0: no bound.
	Limit int `json:"limit,omitempty"`
	// Batch has all rows be tasks of one batch.
	Batch bool `json:"batch,omitempty"`
	// Locks is how many locks there are; every LockedEvery-th row has one of them. Waiting is how many more rows wait for a lock, before the
	// others and for ever.
	Locks       int `json:"locks,omitempty"`
	LockedEvery int `json:"locked_every,omitempty"`
	// Sequences: they are no locks, but sequences.
	Sequences bool `json:"sequences,omitempty"`
	Waiting   int  `json:"waiting,omitempty"`
	// Tenants is how many tenants the rows are of, evenly; 0: of none.
	Tenants int `json:"tenants,omitempty"`
	// Graph is what rows wait for; "": nothing.
	Graph Graph `json:"graph,omitempty"`
	// NoNotify has the engine poll: for a pooler in between.
	NoNotify bool `json:"no_notify,omitempty"`
	// Poll is how often the engine looks where nothing wakes it, in nanoseconds; 0: its default.
	Poll time.Duration `json:"poll,omitempty"`
	// Profile is where a CPU profile of the measured part goes; "": none is made.
	Profile string `json:"profile,omitempty"`
}

// LookURL is where to look whether rows are left.
func (j Job) LookURL() string {
	if j.Look != "" {
		return j.Look
	}
	return j.URL
}

// Line is one line of a process's standard output.
type Line struct {
	Ready  bool    `json:"ready,omitempty"`
	Error  string  `json:"error,omitempty"`
	Result *Result `json:"result,omitempty"`
}

// Result is what a measured process says about itself.
type Result struct {
	Seconds float64 `json:"seconds"` // from the line that let it begin until no row was left
	// SelfCPU and ChildCPU are seconds of CPU, user and system, in that time: of the process, and of the processes that
	// it has started and waited for.
	SelfCPU  float64 `json:"self_cpu"`
	ChildCPU float64 `json:"child_cpu"`
	RSS      int64   `json:"rss"` // bytes, the most
	// Latencies are microseconds from just before a row was inserted to the start of its work, one for each row.
	Latencies []int64 `json:"latencies,omitempty"`
	// Version is that of the contender, where it knows one.
	Version string `json:"version,omitempty"`
}
