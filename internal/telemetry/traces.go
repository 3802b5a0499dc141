package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Bounds of a Tracer.
const (
	spanQueue = 8192            // spans that wait for their export, unless OTEL_BSP_MAX_QUEUE_SIZE says otherwise
	flushFor  = 2 * time.Second // how long Close waits for the last spans
)

// Tracer makes spans and exports them by OTLP. What it needs to know it reads from the environment, by the names of OpenTelemetry. A
// nil Tracer is one that is off. It is safe for use by many at once. No method waits for the collector, but for Close.
type Tracer struct {
	ctx      context.Context // of spans: nothing but their ids and parents is in it
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	export   *exporter
}

// TracerOptions describe the agent, and where a Tracer reports its own failures.
type TracerOptions struct {
	Agent   string // its name: service.instance.id
	Version string
	Log     *slog.Logger
	Metrics *Metrics
}

// NewTracer returns a Tracer as the environment asks for it; nil where it asks for none. An error says what is wrong with which variable,
// and what to set instead. The caller must Close the Tracer.
func NewTracer(ctx context.Context, o TracerOptions) (*Tracer, error) {
	if on, err := tracesWanted(os.Getenv); !on {
		return nil, err
	}
	client, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("export spans: %w", err)
	}
	// The environment's come last: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES replace what the agent says of itself.
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "leasehold"), attribute.String("service.version", o.Version),
		Text("service.instance.id", o.Agent),
	), resource.WithFromEnv())
	if err != nil {
		o.Log.Warn("a part of OTEL_RESOURCE_ATTRIBUTES is left out: write key=value pairs, separated by commas", "err", err)
	}
	return newTracer(context.WithoutCancel(ctx), client, about, o), nil
}

// newTracer returns a Tracer that exports to a client. ctx must not end.
func newTracer(ctx context.Context, to sdk.SpanExporter, about *resource.Resource, o TracerOptions) *Tracer {
	stop, cancel := context.WithCancel(ctx)
	e := &exporter{
		to: to, stop: stop, cancel: cancel, log: o.Log, most: queueSize(os.Getenv),
		full: o.Metrics.SpansDropped.WithLabelValues("queue_full"), refused: o.Metrics.SpansDropped.WithLabelValues("not_exported"),
	}
	in := queue{sdk.NewBatchSpanProcessor(e, sdk.WithMaxQueueSize(e.most)), e}
	provider := sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithIDGenerator(ids{}), sdk.WithSpanProcessor(in))
	return &Tracer{ctx: ctx, provider: provider, tracer: provider.Tracer("leasehold", trace.WithInstrumentationVersion(o.Version)), export: e}
}

// Close exports the last spans, in no more than two seconds. No span may be started or ended after it. It may be called on nil.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushFor)
	defer cancel()
	err := t.provider.Shutdown(ctx)
	t.export.cancel() // what is still under way ends now
	if err != nil {
		t.export.log.Warn("the last spans could not be exported in time", "err", err, "spans", t.export.waiting.Load())
	}
}

// SpanStart describes a span.
type SpanStart struct {
	Name string
	Kind trace.SpanKind
	// Parent is the span above it; zero: it is a root of the trace Trace, of a new one where that is zero too.
	Parent     trace.SpanContext
	Trace      trace.TraceID
	ID         trace.SpanID // zero: a random one
	At         time.Time    // when it begins; zero: now
	Attributes []attribute.KeyValue
	Links      []trace.Link
}

// Text is an attribute of text that need not be valid UTF-8: one such span would keep all that are exported with it from the collector.
func Text(key, value string) attribute.KeyValue {
	return attribute.String(key, strings.ToValidUTF8(value, "\uFFFD"))
}

// Start starts a span. Whether it is sampled is decided now, by OTEL_TRACES_SAMPLER: by default as its parent is, and roots are.
func (t *Tracer) Start(s SpanStart) trace.Span {
	ctx := context.WithValue(t.ctx, idsKey{}, &s)
	if s.Parent.IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, s.Parent)
	}
	options := append(make([]trace.SpanStartOption, 0, 4), trace.WithSpanKind(s.Kind))
	if !s.At.IsZero() {
		options = append(options, trace.WithTimestamp(s.At))
	}
	if len(s.Attributes) > 0 {
		options = append(options, trace.WithAttributes(s.Attributes...))
	}
	if len(s.Links) > 0 {
		options = append(options, trace.WithLinks(s.Links...))
	}
	_, span := t.tracer.Start(ctx, strings.ToValidUTF8(s.Name, "\uFFFD"), options...) //nolint:spancheck // the caller ends it
	return span                                                                       //nolint:spancheck // as above
}

// ids gives a span the ids that its SpanStart asks for.
type ids struct{}

type idsKey struct{}

// NewIDs returns the ids of a root.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	of := trace.TraceID{}
	if s, ok := ctx.Value(idsKey{}).(*SpanStart); ok {
		of = s.Trace
	}
	if !of.IsValid() {
		of = randomTrace()
	}
	return of, ids{}.NewSpanID(ctx, of)
}

// NewSpanID returns the id of a span.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if s, ok := ctx.Value(idsKey{}).(*SpanStart); ok && s.ID.IsValid() {
		return s.ID
	}
	return randomSpan()
}

// RedirectOTel has the OpenTelemetry packages of this process log with log, in place of lines of their own on standard error. It changes
// the whole process.
func RedirectOTel(log *slog.Logger) {
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	var last atomic.Pointer[string]
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		text := err.Error()
		if before := last.Swap(&text); before == nil || *before != text {
			log.Warn("tracing", "err", err)
		}
	}))
}
