package poll_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/test/storetest/model"
)

const benchParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// nothing is an executor whose attempts are over at once.
type nothing struct {
	left atomic.Int64
	done chan struct{}
}

func (n *nothing) Run(l *lease.Lease, _ *task.Type) task.Outcome {
	l.Start()
	if n.left.Add(-1) == 0 {
		close(n.done)
	}
	return task.Outcome{Verdict: task.Succeeded}
}

func (n *nothing) RunMany([]*lease.Lease, *task.Type, func(int, task.Outcome)) {}

// BenchmarkEngine measures what a task costs the loop, with the store in memory, while spans are off, and while they are exported to a
// collector in this process.
func BenchmarkEngine(b *testing.B) {
	b.Run("off", func(b *testing.B) { benchEngine(b, nil) })
	b.Run("on", func(b *testing.B) {
		collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
		defer collector.Close()
		b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
		m := telemetry.NewMetrics(prometheus.NewRegistry())
		spans, err := telemetry.NewTracer(b.Context(), telemetry.TracerOptions{Agent: "bench", Log: slog.New(slog.DiscardHandler), Metrics: m})
		require.NoError(b, err)
		defer spans.Close()
		benchEngine(b, &poll.Tracing{
			Spans: spans, Batch: func(task.BatchID) string { return "" }, Slot: func(string, string) string { return "" },
		})
	})
}

func benchEngine(b *testing.B, tracing *poll.Tracing) {
	b.Helper()
	db := model.New(time.Now)
	rows := make([]store.EnqueueRequest, b.N)
	for i := range rows {
		rows[i] = store.EnqueueRequest{Type: "a", Traceparent: benchParent}
	}
	_, err := db.Insert(b.Context(), rows...)
	require.NoError(b, err)
	x := &nothing{done: make(chan struct{})}
	x.left.Store(int64(b.N))
	e := poll.New(poll.Options{
		Store: db, Leases: db, Executor: x, Agent: store.Agent{Name: "bench", Presence: 15 * time.Second},
		Declarations: poll.Declarations{Types: []*task.Type{declare("a", 0)}, Workers: 8, Poll: time.Second, Drain: 20 * time.Second},
		Clock:        lease.RunClock(), Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
		Tracing: tracing,
	})
	b.ReportAllocs()
	b.ResetTimer()
	ended := make(chan error, 1)
	go func() { ended <- e.Run(context.WithoutCancel(b.Context())) }()
	<-x.done
	b.StopTimer()
	e.Drain()
	require.NoError(b, <-ended)
}
