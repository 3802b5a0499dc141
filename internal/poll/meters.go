package poll

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/internal/activity"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// meters are the metrics of a lane's attempts, looked up once.
type meters struct {
	latency  prometheus.Observer
	duration prometheus.Observer
	running  prometheus.Gauge
	activity *activity.Type
	ended    map[task.Phase]map[task.Verdict]prometheus.Counter
}

func newMeters(m *telemetry.Metrics, counters *activity.Counters, t *task.Type) meters {
	typ := t.Name
	lane := meters{
		latency: m.StartLatency.WithLabelValues(typ), duration: m.AttemptDuration.WithLabelValues(typ),
		running: m.Running.WithLabelValues(typ), activity: counters.Of(typ), ended: make(map[task.Phase]map[task.Verdict]prometheus.Counter),
	}
	phases := []task.Phase{task.Run}
	if t.Check != nil {
		phases = append(phases, task.Check)
	}
	if t.Rollback != nil {
		phases = append(phases, task.Rollback)
		m.RollbacksFailed.WithLabelValues(typ) // shown from the start: an alert asks whether it rises
	}
	for _, phase := range phases {
		lane.ended[phase] = make(map[task.Verdict]prometheus.Counter)
		for _, v := range task.Verdicts() {
			lane.ended[phase][v] = m.Attempts.WithLabelValues(typ, string(phase), string(v))
		}
	}
	return lane
}

// count counts the end of an attempt.
func (m *meters) count(phase task.Phase, v task.Verdict) {
	m.activity.Ended(v)
	m.ended[phase][v].Inc()
}

// endedElsewhere counts the end of an attempt that this agent did not run to its end: it reaped its row, or the task has reported it. The type
// of the row may be an alias.
func (e *Engine) endedElsewhere(row *task.Task, v task.Verdict) {
	e.o.Metrics.Attempts.WithLabelValues(row.Type, string(row.Phase()), string(v)).Inc()
	typ := row.Type
	if d := e.declarations().byName[typ]; d != nil {
		typ = d.typ.Name
	}
	e.o.Activity.Of(typ).Ended(v)
}
