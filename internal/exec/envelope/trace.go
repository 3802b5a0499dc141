package envelope

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/leasehold/leasehold/internal/task"
)

// Traceparent is the trace context (W3C Trace Context, level 1) for this attempt's target: a child of the row's, or of Trace. Its
// span id is the one that the agent exports. Where neither is known, a new trace starts with each attempt. It is marked as sampled:
// the agent records nothing of it, and a collector should not be asked to drop it.
func (e *Envelope) Traceparent() string {
	c, ok := task.ParseTraceparent(e.Task.Traceparent)
	if !ok {
		c, ok = task.ParseTraceparent(e.Trace)
	}
	if !ok {
		return unknown().String()
	}
	c.Span = e.Task.AttemptSpan(c, e.Task.Fence, e.Phase)
	if e.TraceFlags != "" {
		c.Flags = e.TraceFlags
	}
	return c.String()
}

// unknown returns the context of an attempt of which no trace is known.
func unknown() task.TraceContext {
	var random [24]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails
	random[0], random[16] = random[0]|1, random[16]|1
	return task.TraceContext{Trace: hex.EncodeToString(random[:16]), Span: hex.EncodeToString(random[16:]), Flags: "01"}
}
