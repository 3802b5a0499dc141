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
	StrayLines       *prometheus.CounterVec // last lines of workers that were not the running attempt's
	LeasesLost       prometheus.Counter
	Sweeps           prometheus.Counter // reaped rows
	BreakerOpen      *prometheus.GaugeVec
	TypePaused       *prometheus.GaugeVec
	Spilled          prometheus.Counter // rows of other regions that the agent took over (spill_after)
	CatchUpRows      prometheus.Gauge   // due rows that are left while the agent catches up
	StoreErrors      *prometheus.CounterVec
	StoreDuration    *prometheus.HistogramVec
	ReloadFailed     prometheus.Gauge
	Reloads          *prometheus.CounterVec
	SpansDropped     *prometheus.CounterVec

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
		Claims:           counter("leasehold_claims_total", "Number of rows that this agent has claimed."),
		Attempts:         counters("leasehold_attempts_total", "Number of attempts whose end the store has, by outcome.", "type", "phase", "outcome"),
		AttemptDuration:  histograms("leasehold_attempt_duration_seconds", "Seconds from an attempt's start to its end.", long, "type"),
		StartLatency:     histograms("leasehold_start_latency_seconds", "Seconds from a row's due time to the start of its attempt.", quick, "type"),
		Running:          gauges("leasehold_running", "Number of attempts that are running now.", "type"),
		Buffered:         gauge("leasehold_buffered", "Number of rows that are claimed but not started, or ended but not settled."),
		Workers:          gauge("leasehold_workers", "Maximum number of concurrent attempts of this agent."),
		Pings:            counters("leasehold_pings_total", "Number of pings from attempts that hold their row.", "type", "counted"),
		Stalls:           counters("leasehold_stalls_total", "Number of attempts stopped because no ping that counts arrived in time.", "type"),
		RollbacksFailed:  counters("leasehold_rollbacks_failed_total", "Number of tasks whose rollback failed for good; they need an operator.", "type"),
		Quarantined:      gauge("leasehold_quarantined", "Number of slots kept empty because a process of their last attempt survived SIGKILL."),
		StaleSettlements: counter("leasehold_stale_settlements_total", "Number of outcomes that the store refused because the lease was lost."),
		StrayLines:       counters("leasehold_worker_stray_lines_total", "Number of last lines from workers that were not of the running attempt.", "type"),
		LeasesLost:       counter("leasehold_leases_lost_total", "Number of leases that this agent found lost: of running attempts and refused outcomes."),
		Sweeps:           counter("leasehold_sweeps_total", "Number of rows reaped because their lease had expired or their session had ended."),
		BreakerOpen:      gauges("leasehold_breaker_open", "1 while the breaker is open because the target is out of reach, else 0.", "type", "phase"),
		TypePaused:       gauges("leasehold_type_paused", "1 while an operator has paused the type, else 0.", "type"),
		Spilled:          counter("leasehold_spilled_total", "Number of rows of other regions that had waited too long, which this agent opened to all."),
		CatchUpRows:      gauge("leasehold_catch_up_rows", "Number of due rows of the agent's types while it catches up after an outage, else 0."),
		StoreErrors:      counters("leasehold_store_errors_total", "Number of store calls that failed.", "op"),
		StoreDuration:    histograms("leasehold_store_duration_seconds", "Duration of store calls, in seconds.", quick, "op"),
		ReloadFailed: gauge("leasehold_reload_failed",
			"1 while the last reload of the configuration has changed nothing, as it failed or the store is yet to know of it, else 0."),
		Reloads:      counters("leasehold_reloads_total", "Number of reloads of the configuration, by result.", "result"),
		SpansDropped: counters("leasehold_spans_dropped_total", "Number of spans that were not exported, by reason.", "reason"),
		Outage:       &Outage{},
	}
}

// Forget removes what is kept of a type that the agent declares no more.
func (m *Metrics) Forget(typ string) {
	of := prometheus.Labels{"type": typ}
	for _, v := range []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}{
		m.Attempts, m.AttemptDuration, m.StartLatency, m.Running, m.Pings, m.Stalls, m.RollbacksFailed, m.StrayLines, m.BreakerOpen, m.TypePaused,
	} {
		v.DeletePartialMatch(of)
	}
}

func register[C prometheus.Collector](r prometheus.Registerer, c C) C {
	r.MustRegister(c)
	return c
}
