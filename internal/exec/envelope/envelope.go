// Package envelope writes what a task gets to know about itself: the JSON document of docs/protocol.md that is the body of a
// callback and the standard input of a subprocess, and the names and numbers that headers and environment repeat.
package envelope

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// Envelope is one attempt as the target sees it.
type Envelope struct {
	Task        *task.Task
	Phase       task.Phase
	Type        string // the declared name, also where the row carries an alias
	MaxAttempts int
	Now         time.Time // the store's clock
	Deadline    time.Time // when this attempt must be over, by the store's clock
	Remaining   time.Duration
	Heartbeat   time.Duration // the longest silence; 0: no pings are due
	PingURL     string        // "" where there is none
	// Trace is the trace context of a row that has none of its own, the same in all of its attempts; "": none is needed, or known.
	Trace string
	// TraceFlags are the flags of the trace context that the target gets, where the agent has decided whether the attempt is sampled;
	// "": those of its parent.
	TraceFlags string
	After      *task.After // what a run gets to know of the tasks that its own has waited for; nil: there are none
}

// Of describes the attempt that holds l, of the declared type t, as it stands now.
func Of(l *lease.Lease, t *task.Type) Envelope {
	row := l.Task()
	e := Envelope{
		Task:        row,
		Phase:       l.Phase(),
		Type:        t.Name,
		MaxAttempts: l.Policy().MaxAttempts(l.Phase(), row.MaxAttempts),
		Now:         l.Now(),
		Remaining:   l.Remaining(),
		Heartbeat:   l.Heartbeat(),
		PingURL:     l.PingURL(),
		After:       l.After(),
		TraceFlags:  l.TraceFlags(),
	}
	if _, ok := task.ParseTraceparent(row.Traceparent); !ok {
		e.Trace = l.Trace()
	}
	e.Deadline = e.Now.Add(e.Remaining)
	return e
}

// Time writes a time as every part of the protocol does: RFC 3339, UTC, always six digits of a second.
func Time(t time.Time) string {
	return string(appendTime(make([]byte, 0, len("2006-01-02T15:04:05.000000Z")), t))
}

// appendTime appends what Time returns. The format without a fraction is the one that package time writes fastest.
func appendTime(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(b, time.RFC3339)
	b[len(b)-1] = '.'
	micros := t.Nanosecond() / 1000
	for unit := 100_000; unit > 0; unit /= 10 {
		b = append(b, byte('0'+micros/unit%10))
	}
	return append(b, 'Z')
}

// MessageID is the name of the work that a delivery asks for, the same on every retry of it (Standard Webhooks,
// webhook-id). An operator's retry is new work, and each check is a question of its own.
func (e *Envelope) MessageID() string {
	id := "task_" + strconv.FormatInt(int64(e.Task.ID), 10)
	if e.Phase == task.Check {
		return id + "_check_" + strconv.FormatInt(int64(e.Task.Fence), 10)
	}
	if e.Task.Round > 0 {
		id += "_r" + strconv.Itoa(e.Task.Round)
	}
	if e.Phase == task.Rollback {
		id += "_rollback"
	}
	return id
}

// JSON writes the document. The row's own JSON (payload, labels, checkpoint, result) stands in it byte for byte; where
// that is no JSON there is no document.
func (e *Envelope) JSON() ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	b := make([]byte, 0, 96+e.size())
	b = appendHead(b, e.Type, e.Now)
	b = append(b, e.Task.Data()...)
	b = append(b, `,"task":`...)
	b = e.appendTask(b)
	return append(b, "}}"...), nil
}

// size is about how many bytes the data and the task of the document have.
func (e *Envelope) size() int {
	row := e.Task
	n := 496 + len(e.PingURL) + len(row.Data()) + len(row.Labels) + len(row.Checkpoint) + len(row.Result)
	if e.After != nil {
		for i := range e.After.Tasks {
			n += 96 + len(e.After.Tasks[i].Result)
		}
	}
	return n
}

// appendHead begins a document, up to its data.
func appendHead(b []byte, typ string, now time.Time) []byte {
	b = append(b, `{"type":`...)
	b = appendString(b, typ)
	b = append(b, `,"timestamp":"`...)
	b = appendTime(b, now)
	return append(b, `","data":`...)
}

// appendTask appends the member task, without the brace that ends it.
func (e *Envelope) appendTask(b []byte) []byte {
	row := e.Task
	b = append(b, `{"id":`...)
	b = strconv.AppendInt(b, int64(row.ID), 10)
	b = append(b, `,"phase":`...)
	b = appendString(b, string(e.Phase))
	b = append(b, `,"attempt":`...)
	b = strconv.AppendInt(b, int64(row.Attempt), 10)
	b = append(b, `,"max_attempts":`...)
	b = strconv.AppendInt(b, int64(e.MaxAttempts), 10)
	b = append(b, `,"fence":`...)
	b = strconv.AppendInt(b, int64(row.Fence), 10)
	b = append(b, `,"deadline":"`...)
	b = appendTime(b, e.Deadline)
	b = append(b, `","remaining_s":`...)
	b = strconv.AppendFloat(b, e.Remaining.Seconds(), 'f', 3, 64)
	b = append(b, `,"heartbeat_s":`...)
	if e.Heartbeat > 0 {
		b = strconv.AppendFloat(b, e.Heartbeat.Seconds(), 'f', 3, 64)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"ping_url":`...)
	b = appendName(b, e.PingURL)
	b = append(b, `,"batch":`...)
	b = appendBatch(b, row.Batch)
	b = append(b, `,"key":`...)
	b = appendName(b, row.Key)
	b = append(b, `,"region":`...)
	b = appendName(b, row.Region)
	b = append(b, `,"labels":`...)
	b = appendJSON(b, row.Labels, "{}")
	b = append(b, `,"checkpoint":`...)
	b = appendJSON(b, row.Checkpoint, "null")
	b = append(b, `,"previous":`...)
	b = appendPrevious(b, row.Previous)
	if e.Phase == task.Rollback {
		b = appendForward(b, row)
	} else if e.After != nil {
		b = appendAfter(b, e.After)
	}
	return b
}

// appendForward adds how the run ended, for a rollback.
func appendForward(b []byte, row *task.Task) []byte {
	b = append(b, `,"outcome":`...)
	b = appendName(b, string(row.Cause))
	b = append(b, `,"result":`...)
	return appendJSON(b, row.Result, "null")
}

func appendBatch(b []byte, id task.BatchID) []byte {
	if id == 0 {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, int64(id), 10)
}

// check returns an error where a document of the row is no JSON.
func (e *Envelope) check() error {
	row := e.Task
	if !json.Valid(row.Data()) {
		return fmt.Errorf("write the envelope: the payload of task %d is not JSON", row.ID)
	}
	if row.Phase() == task.Rollback && row.Result != nil && !json.Valid(row.Result) {
		return fmt.Errorf("write the envelope: the result of task %d is not JSON", row.ID)
	}
	if row.Labels != nil && !json.Valid(row.Labels) {
		return fmt.Errorf("write the envelope: the labels of task %d are not JSON", row.ID)
	}
	if row.Checkpoint != nil && !json.Valid(row.Checkpoint) {
		return fmt.Errorf("write the envelope: the checkpoint of task %d is not JSON", row.ID)
	}
	return checkAfter(e.After)
}

func appendPrevious(b []byte, p *task.Previous) []byte {
	if p == nil {
		return append(b, "null"...)
	}
	b = append(b, `{"outcome":`...)
	b = appendString(b, string(p.Outcome))
	b = append(b, `,"error":`...)
	b = appendString(b, p.Error)
	return append(b, '}')
}

// appendJSON appends a document, or what stands for none.
func appendJSON(b []byte, doc json.RawMessage, none string) []byte {
	if doc == nil {
		return append(b, none...)
	}
	return append(b, doc...)
}

// appendName appends a string, or null for "".
func appendName(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendString(b, s)
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic("a string always marshals: " + err.Error())
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
