// Package telemetry holds metrics, logging and trace propagation. It imports nothing of ours.
package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are an agent's own metrics. Their names and labels are a promise (docs/operations.md).
type Metrics struct {
	Claims           prometheus.Counter // claimed rows
	Attempts         *prometheus.CounterVec
	AttemptDuration  *prometheus.HistogramVec
	StartLatency     *prometheus.HistogramVec
	Running          *prometheus.GaugeVec
	Buffered         prometheus.Gauge // claimed and not started, or ended and not settled
	Workers          prometheus.Gauge
	Pings            *prometheus.CounterVec
	Stalls           *prometheus.CounterVec
	RollbacksFailed  *prometheus.CounterVec
	Quarantined      prometheus.Gauge // slots kept from the next task
	StaleSettlements prometheus.Counter
	LeasesLost       prometheus.Counter
	Sweeps           prometheus.Counter // swept rows
	BreakerOpen      *prometheus.GaugeVec
	StoreErrors      *prometheus.CounterVec
	StoreDuration    *prometheus.HistogramVec

	Outage *Outage // what is logged while store calls fail
}

// NewMetrics makes the metrics and registers them with r. It panics where r has metrics of these names already.
func NewMetrics(r prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
	}
	histograms := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
	}
	quick := prometheus.ExponentialBuckets(0.0005, 2, 16) // 0.5 ms to 16 s
	long := prometheus.ExponentialBuckets(0.001, 4, 12)   // 1 ms to 70 min
	return &Metrics{
		Claims:           counter("leasehold_claims_total", "Rows claimed."),
		Attempts:         counters("leasehold_attempts_total", "Attempts ended.", "type", "phase", "outcome"),
		AttemptDuration:  histograms("leasehold_attempt_duration_seconds", "From an attempt's start to its end.", long, "type"),
		StartLatency:     histograms("leasehold_start_latency_seconds", "From a row's due time to its attempt's start.", quick, "type"),
		Running:          gauges("leasehold_running", "Attempts running now.", "type"),
		Buffered:         gauge("leasehold_buffered", "Rows claimed and not started, or ended and not settled yet."),
		Workers:          gauge("leasehold_workers", "Attempts that may run at once."),
		Pings:            counters("leasehold_pings_total", "Pings of attempts that hold their row.", "type", "counted"),
		Stalls:           counters("leasehold_stalls_total", "Attempts stopped because no progress came.", "type"),
		RollbacksFailed:  counters("leasehold_rollbacks_failed_total", "Tasks whose rollback failed for good: each needs manual intervention.", "type"),
		Quarantined:      gauge("leasehold_quarantined", "Slots that take no task because a process of their last attempt did not die of SIGKILL."),
		StaleSettlements: counter("leasehold_stale_settlements_total", "Outcomes refused because the lease was lost."),
		LeasesLost:       counter("leasehold_leases_lost_total", "Leases that were taken away while their attempt ran."),
		Sweeps:           counter("leasehold_sweeps_total", "Rows swept because their lease ran out or their session was gone."),
		BreakerOpen:      gauges("leasehold_breaker_open", "1 while the target is taken to be out of reach.", "type", "phase"),
		StoreErrors:      counters("leasehold_store_errors_total", "Store calls that failed.", "op"),
		StoreDuration:    histograms("leasehold_store_duration_seconds", "Time a store call took.", quick, "op"),
		Outage:           &Outage{},
	}
}

func register[C prometheus.Collector](r prometheus.Registerer, c C) C {
	r.MustRegister(c)
	return c
}
