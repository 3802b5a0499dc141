package main

import (
	"context"
	"encoding/hex"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// batchLook bounds the look at a batch that has ended, for its span.
const batchLook = 2 * time.Second

// makeTracer has the agent export spans where the environment asks for it. What is wrong with it keeps no agent from its work.
func (a *agent) makeTracer(ctx context.Context) {
	t, err := telemetry.NewTracer(ctx, telemetry.TracerOptions{
		Agent: a.first.Agent.Name, Version: readBuild().Version, Log: a.log, Metrics: a.metrics,
	})
	if err != nil {
		a.log.Error("no spans are exported", "err", err)
	}
	if t != nil {
		telemetry.RedirectOTel(a.log)
		a.spans = t
	}
}

// tracing is what the loop needs for spans; nil: it makes none.
func (a *agent) tracing() *poll.Tracing {
	if a.spans == nil {
		return nil
	}
	return &poll.Tracing{
		Spans: a.spans,
		Batch: func(id task.BatchID) string {
			return a.pings.derived(func(s *ping.Signer) string { return s.BatchTrace(id) })
		},
		Slot: func(schedule, slot string) string {
			return a.pings.derived(func(s *ping.Signer) string { return s.SlotTrace(schedule, slot) })
		},
	}
}

// derived returns a trace context that follows from the store's key; "": it is not known yet.
func (p *pings) derived(of func(*ping.Signer) string) string {
	if s := p.signer.Load(); s != nil {
		return of(s)
	}
	return ""
}

// rootOf describes the span at the root of a derived trace; ok is false where that is not known.
func rootOf(traceparent string) (s telemetry.SpanStart, ok bool) {
	c, ok := task.ParseTraceparent(traceparent)
	if ok {
		_, _ = hex.Decode(s.Trace[:], []byte(c.Trace)) // as it was checked
		_, _ = hex.Decode(s.ID[:], []byte(c.Span))
	}
	return s, ok
}

// traceFiring exports the spans of the slots of a schedule that this agent has fired, to which the attempts of their tasks link.
func (a *agent) traceFiring(f *store.Firing, began time.Time) {
	for _, row := range f.Rows {
		slot := store.SlotText(row.Slot)
		s, ok := rootOf(a.pings.derived(func(s *ping.Signer) string { return s.SlotTrace(f.Name, slot) }))
		if !ok {
			return
		}
		s.Name, s.Kind, s.At = "fire "+f.Name, trace.SpanKindProducer, began
		s.Attributes = []attribute.KeyValue{
			attribute.String("messaging.system", "leasehold"), attribute.String("messaging.operation.name", "fire"),
			attribute.String("messaging.operation.type", "create"), telemetry.Text("leasehold.schedule", f.Name),
			telemetry.Text("leasehold.slot", slot), telemetry.Text("leasehold.agent", a.first.Agent.Name),
		}
		a.spans.Start(s).End()
	}
}

// traceBatch exports the span of a batch that this agent has ended, from its creation to its end. A batch that ends again has a span
// below the first one.
func (a *agent) traceBatch(ctx context.Context, b *store.BatchSummary) {
	s, ok := rootOf(a.pings.derived(func(s *ping.Signer) string { return s.BatchTrace(b.ID) }))
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, batchLook)
	defer cancel()
	info, err := a.store.GetBatch(ctx, b.ID)
	if err != nil || info == nil {
		a.log.Debug("a batch has no span: it cannot be read", "batch", b.ID, "err", err)
		return
	}
	ended := time.Now()
	if info.EndedAt != nil {
		ended = *info.EndedAt
	}
	s.Name, s.Kind, s.At = "batch "+b.Name, trace.SpanKindProducer, info.CreatedAt
	if b.Round > 0 {
		s.Parent = trace.NewSpanContext(trace.SpanContextConfig{TraceID: s.Trace, SpanID: s.ID, TraceFlags: trace.FlagsSampled})
		s.ID = trace.SpanID{}
	}
	s.Attributes = []attribute.KeyValue{
		attribute.Int64("leasehold.batch.id", int64(b.ID)), telemetry.Text("leasehold.batch.name", b.Name),
		attribute.String("leasehold.state", b.State), attribute.Int("leasehold.round", b.Round), attribute.Int64("leasehold.batch.total", b.Total),
		attribute.Int64("leasehold.batch.succeeded", b.Succeeded), attribute.Int64("leasehold.batch.failed", b.Failed),
		telemetry.Text("leasehold.agent", a.first.Agent.Name),
	}
	span := a.spans.Start(s)
	switch store.BatchState(b.State) {
	case store.BatchFailed, store.BatchPartiallyFailed, store.BatchRollbackFailed:
		span.SetStatus(codes.Error, b.State)
	}
	span.End(trace.WithTimestamp(ended))
}
