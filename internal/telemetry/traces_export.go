package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// queue is the SDK's queue of spans, which exports to an exporter. It drops spans before the SDK would, which does not say so.
type queue struct {
	sdk.SpanProcessor // the SDK's
	of                *exporter
}

// OnEnd queues a span, or drops it where the queue is full. It does not block.
func (q queue) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if e := q.of; e.waiting.Add(1) > int64(e.most) {
		e.waiting.Add(-1)
		e.full.Inc()
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// exporter exports spans, counts those that are lost, and logs an outage of the collector as two lines.
type exporter struct {
	to      sdk.SpanExporter
	most    int          // spans in the queue
	waiting atomic.Int64 // those that are in it, or under way

	full, refused prometheus.Counter // spans
	log           *slog.Logger

	stop   context.Context // ends once there is no time left for exports
	cancel func()

	// Exports do not overlap, so these need no lock.
	failing time.Time // since when exports fail; zero: they do not
	lost    int       // spans since then
}

// Shutdown ends the client.
func (e *exporter) Shutdown(ctx context.Context) error { return e.to.Shutdown(ctx) }

// ExportSpans exports spans. Its failures are logged and counted here, so it returns none.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.stop, cancel)() //nolint:contextcheck // ctx ends with either
	err := e.to.ExportSpans(ctx, spans)
	e.waiting.Add(-int64(len(spans)))
	switch {
	case err != nil:
		e.failed(len(spans), err)
	case !e.failing.IsZero():
		e.log.Warn("spans are exported again", "after", time.Since(e.failing), "lost", e.lost)
		e.failing, e.lost = time.Time{}, 0
	}
	return nil
}

// failed notes that spans are lost.
func (e *exporter) failed(spans int, err error) {
	e.refused.Add(float64(spans))
	if e.lost += spans; e.failing.IsZero() {
		e.failing = time.Now()
		e.log.Warn("spans cannot be exported and are dropped; the agent's work does not wait for them", "spans", spans, "err", err)
		return
	}
	e.log.Debug("spans dropped", "spans", spans, "err", err)
}
