package poll

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// meters are the metrics of a lane's attempts, looked up once.
type meters struct {
	latency  prometheus.Observer
	duration prometheus.Observer
	running  prometheus.Gauge
	ended    map[task.Verdict]prometheus.Counter
}

func newMeters(m *telemetry.Metrics, typ string) meters {
	lane := meters{
		latency: m.StartLatency.WithLabelValues(typ), duration: m.AttemptDuration.WithLabelValues(typ),
		running: m.Running.WithLabelValues(typ), ended: make(map[task.Verdict]prometheus.Counter),
	}
	for _, v := range task.Verdicts() {
		lane.ended[v] = m.Attempts.WithLabelValues(typ, string(task.Run), string(v))
	}
	return lane
}
