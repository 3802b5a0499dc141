package poll

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// Tracing is what an engine needs to make spans.
type Tracing struct {
	Spans *telemetry.Tracer
	// Batch and Slot return the trace contexts of the spans of a batch, and of a schedule's slot as payloads have it, to which attempts
	// link; "": not known. They are called only after Secret.
	Batch func(task.BatchID) string
	Slot  func(schedule, slot string) string
}

// What spans say: never what a payload, a result, an output or an error has in it.
const (
	claimLinks = 128 // rows of a claim to which its span links
	accepted   = "accepted"
)

// attemptSpan is the span of an attempt that is recorded.
type attemptSpan struct {
	trace.Span
	above task.TraceContext // the task's
	ended time.Time         // zero: it has not
}

// traceClaim exports the span of a claim that got rows, and has their attempts link to it.
func (e *Engine) traceClaim(got []*attempt, sent time.Duration) {
	if len(got) == 0 {
		return
	}
	s := telemetry.SpanStart{
		Name: "claim", Kind: trace.SpanKindClient, At: time.Now().Add(sent - e.o.Clock.Now()),
		Attributes: []attribute.KeyValue{
			attribute.String("messaging.system", "leasehold"), attribute.String("messaging.operation.name", "claim"),
			attribute.String("messaging.operation.type", "receive"), attribute.Int("messaging.batch.message_count", len(got)),
			telemetry.Text("leasehold.agent", e.o.Agent.Name), attribute.Int64("leasehold.session", int64(e.keeper.Session())),
		},
	}
	span := e.o.Tracing.Spans.Start(s)
	defer span.End()
	if !span.IsRecording() {
		return
	}
	claim := span.SpanContext()
	for i, a := range got {
		a.claim = &claim
		if c, _ := a.lease.TraceContext(); i < claimLinks && c.Sampled() {
			row := a.lease.Task()
			c.Span = row.AttemptSpan(c, row.Fence, row.Phase())
			span.AddLink(trace.Link{SpanContext: contextOf(c)})
		}
	}
}

// traceBegin starts the span of an attempt, if its trace is known and it is sampled, and has its target learn whether it is.
func (e *Engine) traceBegin(a *attempt) {
	c, derived := a.lease.TraceContext()
	if !c.Known() {
		return
	}
	row := a.lease.Task()
	span := e.startAttempt(row, c, derived, a.declared.typ.Name, row.Fence, time.Time{})
	a.lease.SetTraceFlags(span.SpanContext().TraceFlags().String())
	if !span.IsRecording() {
		return
	}
	a.span = &attemptSpan{Span: span, above: c}
	if a.claim != nil {
		span.AddLink(trace.Link{SpanContext: *a.claim, Attributes: linkTo("claim")})
	}
	if f, phase, ok := before(row, a.lease.Policy()); ok {
		c.Span = row.AttemptSpan(c, f, phase)
		span.AddLink(trace.Link{SpanContext: contextOf(c), Attributes: linkTo("previous")})
	}
	e.linkOrigin(span, row)
}

// startAttempt starts the span of the attempt of a row with that fence; at: zero is now. A task without a trace context of its own has no span
// above its attempts, so whether these are sampled follows from the trace id: all of them are or none, on every agent.
func (e *Engine) startAttempt(row *task.Task, c task.TraceContext, derived bool, typ string, f task.Fence, at time.Time) trace.Span {
	s := telemetry.SpanStart{
		Name: typ + " " + string(row.Phase()), Kind: trace.SpanKindConsumer, At: at, ID: spanID(row.AttemptSpan(c, f, row.Phase())),
	}
	if above := contextOf(c); derived {
		s.Trace = above.TraceID()
	} else {
		s.Parent = above.WithRemote(true)
	}
	span := e.o.Tracing.Spans.Start(s)
	if span.IsRecording() {
		span.SetAttributes(e.attributes(row, typ, row.Phase(), f)...)
	}
	return span
}

// attributes describe an attempt.
func (e *Engine) attributes(row *task.Task, typ string, phase task.Phase, f task.Fence) []attribute.KeyValue {
	all := append(make([]attribute.KeyValue, 0, 16),
		attribute.String("messaging.system", "leasehold"), attribute.String("messaging.operation.name", string(phase)),
		attribute.String("messaging.operation.type", "process"), telemetry.Text("messaging.destination.name", typ),
		attribute.String("messaging.message.id", strconv.FormatInt(int64(row.ID), 10)),
		attribute.Int64("leasehold.task.id", int64(row.ID)), telemetry.Text("leasehold.task.type", typ),
		attribute.Int("leasehold.attempt", row.Attempt), attribute.Int64("leasehold.fence", int64(f)),
		attribute.String("leasehold.phase", string(phase)), telemetry.Text("leasehold.agent", e.o.Agent.Name),
	)
	if row.Batch != 0 {
		all = append(all, attribute.Int64("leasehold.batch.id", int64(row.Batch)))
	}
	return all
}

// linkOrigin links an attempt to the batch of its row, and to the slot of the schedule that inserted it.
func (e *Engine) linkOrigin(span trace.Span, row *task.Task) {
	if row.Batch != 0 {
		if c, ok := task.ParseTraceparent(e.o.Tracing.Batch(row.Batch)); ok {
			span.AddLink(trace.Link{SpanContext: contextOf(c), Attributes: linkTo("batch")})
		}
	}
	name, scheduled := strings.CutPrefix(row.CreatedBy, "schedule:")
	if !scheduled {
		return
	}
	var members map[string]json.RawMessage // names are exact, as in JSON everywhere else
	var slot string
	if json.Unmarshal(row.Payload, &members) != nil || json.Unmarshal(members["slot"], &slot) != nil {
		return // another has set created_by
	}
	if c, ok := task.ParseTraceparent(e.o.Tracing.Slot(name, slot)); ok {
		span.AddLink(trace.Link{SpanContext: contextOf(c), Attributes: linkTo("schedule")})
	}
}

// traceEnd ends the span of an attempt, and exports that of its check.
func (e *Engine) traceEnd(a *attempt, out *task.Outcome) {
	s, outcome := a.span, string(out.Verdict)
	ago, took, checked := a.lease.Checked()
	now := time.Now()
	switch {
	case out.Accepted:
		outcome = accepted
	case a.lease.Completed():
		outcome = string(task.Succeeded)
	}
	if checked {
		row := a.lease.Task()
		check := e.o.Tracing.Spans.Start(telemetry.SpanStart{
			Name: a.declared.typ.Name + " check", Kind: trace.SpanKindConsumer, Parent: s.SpanContext(), At: now.Add(-ago),
			ID:         spanID(row.AttemptSpan(s.above, row.Fence, task.Check)),
			Attributes: e.attributes(row, a.declared.typ.Name, task.Check, row.Fence),
		})
		of := string(task.Succeeded)
		if out.InCheck {
			of = outcome
		}
		endSpan(check, of, now.Add(took-ago))
	}
	s.end(outcome, now)
}

// end ends the span.
func (s *attemptSpan) end(outcome string, at time.Time) {
	s.ended = at
	endSpan(s.Span, outcome, at)
}

// endSpan ends a span of an attempt with its outcome.
func endSpan(s trace.Span, outcome string, at time.Time) {
	s.SetAttributes(attribute.String("leasehold.outcome", outcome))
	switch task.Verdict(outcome) {
	case task.Failed, task.Rejected, task.Stalled, task.TimedOut, task.Lost:
		s.SetAttributes(attribute.String("error.type", outcome))
		s.SetStatus(codes.Error, outcome)
	}
	s.End(trace.WithTimestamp(at))
}

// traceReaped returns the span of an attempt that the agent reaps, for its settlement; nil: it is not recorded. Where the agent that ran it
// is gone, it exports it in its place.
func (e *Engine) traceReaped(r *store.Reaped, out *task.Outcome) *attemptSpan {
	c, derived := e.traceContext(&r.Task)
	if !c.Known() {
		return nil
	}
	typ := r.Type
	if d := e.declarations().byName[typ]; d != nil {
		typ = d.typ.Name
	}
	span := e.startAttempt(&r.Task, c, derived, typ, r.RanFence, r.ClaimedAt)
	if !span.IsRecording() {
		return nil
	}
	if r.RanAgent != "" {
		span.SetAttributes(telemetry.Text("leasehold.agent", r.RanAgent)) // and not this one
	}
	s := &attemptSpan{Span: span, above: c, ended: time.Now()}
	if out.Verdict == task.Lost && !r.Present && !r.Detached {
		span.SetAttributes(attribute.Bool("leasehold.reaped", true))
		s.end(string(out.Verdict), s.ended)
	}
	return s
}

// traceSettled exports the span of a settlement that the store has answered.
func (e *Engine) traceSettled(u *unsettled, a store.Answer) {
	s := e.o.Tracing.Spans.Start(telemetry.SpanStart{
		Name: "settle", Kind: trace.SpanKindClient, Parent: u.span.SpanContext(), At: u.span.ended,
		Attributes: []attribute.KeyValue{
			attribute.String("messaging.system", "leasehold"), attribute.String("messaging.operation.name", "settle"),
			attribute.String("messaging.operation.type", "settle"), attribute.String("leasehold.answer", a.String()),
			attribute.String("leasehold.state", string(u.Next.State)), telemetry.Text("leasehold.agent", e.o.Agent.Name),
		},
	})
	if a == store.Lost {
		s.SetAttributes(attribute.String("error.type", "lease_lost"))
		s.SetStatus(codes.Error, "lease_lost")
	}
	s.End()
}

// traceContext returns the trace context of a task that has no lease here.
func (e *Engine) traceContext(row *task.Task) (c task.TraceContext, derived bool) {
	if c, ok := task.ParseTraceparent(row.Traceparent); ok || e.o.Trace == nil {
		return c, false
	}
	c, derived = task.ParseTraceparent(e.o.Trace(row.ID))
	return c, derived
}

// traceArgs returns the ids of an attempt's trace and span for a line of the log; nil: they are not known.
func (e *Engine) traceArgs(row *task.Task, f task.Fence, phase task.Phase) []any {
	c, _ := e.traceContext(row)
	if !c.Known() {
		return nil
	}
	return []any{"trace_id", c.Trace, "span_id", row.AttemptSpan(c, f, phase)}
}

// before returns the fence and the phase of the attempt before, where they follow from the row. A fence rises with each claim and each
// settlement; also when the row is reaped, and when an operator has it run again. ok is false for a first attempt, and where it is not
// known which of these have been. It is wrong where the row was claimed and released in between without having started.
func before(row *task.Task, p *task.Policy) (f task.Fence, phase task.Phase, ok bool) {
	if row.Previous == nil {
		return 0, "", false
	}
	v, phase, rose := row.Previous.Outcome, row.Phase(), task.Fence(2)
	if row.Attempt == 1 && !v.Releases() { // the first one of this phase, or of this round
		switch {
		case phase == task.Rollback:
			if phase = task.Run; row.Cause == task.Succeeded {
				rose++ // it was requested afterwards
			}
		case row.Round > 0:
			if rose++; v == task.Succeeded {
				phase = task.Rollback // the row had been rolled back
			}
		default:
			return 0, "", false
		}
	}
	switch v {
	case task.Lost:
		rose++
	case task.Cancelled:
		return 0, "", false // perhaps while it waited
	case task.Failed, task.Rejected, task.Stalled, task.TimedOut:
		if _, _, async := p.Liveness(phase); async {
			return 0, "", false // perhaps it was detached, and reaped
		}
	}
	return row.Fence - rose, phase, row.Fence > rose
}

func linkTo(what string) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("leasehold.link", what)}
}

// contextOf returns a task's context as the SDK has it.
func contextOf(c task.TraceContext) trace.SpanContext {
	var id trace.TraceID
	var flags [1]byte
	_, _ = hex.Decode(id[:], []byte(c.Trace)) // ParseTraceparent has checked it
	_, _ = hex.Decode(flags[:], []byte(c.Flags))
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: spanID(c.Span), TraceFlags: trace.TraceFlags(flags[0])})
}

func spanID(digits string) (id trace.SpanID) {
	_, _ = hex.Decode(id[:], []byte(digits)) // as above
	return id
}
