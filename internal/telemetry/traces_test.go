package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

func TestTracesWanted(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	at := map[string]string{endpoint: "http://localhost:4318"}
	for _, c := range []struct {
		env   map[string]string // beside at
		on    bool
		wrong string
	}{
		{map[string]string{endpoint: ""}, false, ""},
		{nil, true, ""},
		{map[string]string{endpoint: "", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c/v1/traces"}, true, ""},
		{map[string]string{"OTEL_SDK_DISABLED": "true"}, false, ""},
		{map[string]string{"OTEL_SDK_DISABLED": "TRUE"}, false, ""},
		{map[string]string{"OTEL_SDK_DISABLED": "1"}, true, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "none"}, false, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "console, otlp"}, true, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, "OTEL_TRACES_EXPORTER"},
		{map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf"},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, false, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf"},
		{map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, true, ""},
		{map[string]string{endpoint: "localhost:4318"}, false, endpoint},
		{map[string]string{endpoint: "http://"}, false, endpoint},
		{map[string]string{endpoint: "unix:///run/otel"}, false, endpoint},
	} {
		on, err := tracesWanted(func(name string) string {
			if v, ok := c.env[name]; ok {
				return v
			}
			return at[name]
		})
		require.Equal(t, c.on, on, c.env)
		if c.wrong == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.wrong)
		}
	}
}

// kept is a collector in memory, which fails or hangs if it is told to.
type kept struct {
	mu    sync.Mutex
	spans []sdk.ReadOnlySpan
	err   error
	hang  bool
}

func (k *kept) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if k.err == nil {
		k.spans = append(k.spans, spans...)
	}
	return k.err
}

func (k *kept) Shutdown(context.Context) error { return nil }

func (k *kept) set(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

func tracerTo(t *testing.T, k *kept, log *strings.Builder) (*Tracer, *Metrics) {
	t.Helper()
	m := NewMetrics(prometheus.NewRegistry())
	return newTracer(context.WithoutCancel(t.Context()), k, resource.Empty(), TracerOptions{Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: m}), m
}

// TestSpanIDs: a span has the ids that it is given, its parent's trace, and its parent's decision on sampling.
func TestSpanIDs(t *testing.T) {
	k := &kept{}
	tracer, _ := tracerTo(t, k, &strings.Builder{})
	of, id := trace.TraceID{1}, trace.SpanID{2}
	above := trace.NewSpanContext(trace.SpanContextConfig{TraceID: of, SpanID: trace.SpanID{9}, TraceFlags: trace.FlagsSampled})
	tracer.Start(SpanStart{Name: "child", Parent: above, ID: id}).End()
	tracer.Start(SpanStart{Name: "root", Trace: trace.TraceID{3}, ID: trace.SpanID{4}}).End()
	tracer.Start(SpanStart{Name: "any\xff", Attributes: []attribute.KeyValue{Text("batch", "\xffb")}}).End()
	unsampled := tracer.Start(SpanStart{Name: "unsampled", Parent: above.WithTraceFlags(0), ID: trace.SpanID{5}})
	require.False(t, unsampled.IsRecording())
	require.Equal(t, trace.SpanID{5}, unsampled.SpanContext().SpanID())
	require.False(t, unsampled.SpanContext().IsSampled())
	unsampled.End()
	tracer.Close()
	require.Len(t, k.spans, 3)
	require.Equal(t, of, k.spans[0].SpanContext().TraceID())
	require.Equal(t, id, k.spans[0].SpanContext().SpanID())
	require.Equal(t, trace.SpanID{9}, k.spans[0].Parent().SpanID())
	require.Equal(t, trace.TraceID{3}, k.spans[1].SpanContext().TraceID())
	require.Equal(t, trace.SpanID{4}, k.spans[1].SpanContext().SpanID())
	require.False(t, k.spans[1].Parent().IsValid())
	require.True(t, k.spans[2].SpanContext().IsValid())
	require.Equal(t, "any\uFFFD", k.spans[2].Name(), "no protobuf holds other bytes")
	require.Equal(t, "\uFFFDb", k.spans[2].Attributes()[0].Value.AsString())
	var off *Tracer
	off.Close()
}

// TestAnOutageOfTheCollector: it is one line when it begins and one when it is over, however many spans are lost, and these are counted.
func TestAnOutageOfTheCollector(t *testing.T) {
	k, log := &kept{err: errors.New("no such host")}, &strings.Builder{}
	tracer, m := tracerTo(t, k, log)
	for range 3 {
		tracer.Start(SpanStart{Name: "lost"}).End()
		require.NoError(t, tracer.provider.ForceFlush(t.Context()))
	}
	require.Equal(t, 1, strings.Count(log.String(), "spans cannot be exported"), log)
	require.InDelta(t, 3, testutil.ToFloat64(m.SpansDropped.WithLabelValues("not_exported")), 0)
	k.set(nil)
	for range 2 {
		tracer.Start(SpanStart{Name: "kept"}).End()
		require.NoError(t, tracer.provider.ForceFlush(t.Context()))
	}
	require.Equal(t, 1, strings.Count(log.String(), "spans are exported again"), log)
	require.Contains(t, log.String(), "lost=3")
	require.Len(t, k.spans, 2)
	require.Zero(t, tracer.export.waiting.Load())
	tracer.Close()
}

// TestASilentCollector: spans beyond the queue are dropped and counted, no call blocks, and Close ends in its time with all that was made.
func TestASilentCollector(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
	synctest.Test(t, func(t *testing.T) {
		k, log := &kept{hang: true}, &strings.Builder{}
		tracer, m := tracerTo(t, k, log)
		for range 100 {
			tracer.Start(SpanStart{Name: "x"}).End()
		}
		require.InDelta(t, 90, testutil.ToFloat64(m.SpansDropped.WithLabelValues("queue_full")), 0)
		start := time.Now()
		tracer.Close()
		require.Equal(t, flushFor, time.Since(start))
		synctest.Wait() // its exporter logs, too
		require.Contains(t, log.String(), "could not be exported in time")
	})
}
