package exec

import (
	"io"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// shell is a worker that writes those lines for each attempt.
func shell(lines string) *task.Command {
	script := `echo '{"ready": true}' >&3; while read -r line; do ` + lines + `; done`
	argv := []string{"sh", "-c", script}
	c := &task.Command{
		StopSignal: syscall.SIGTERM, StopGrace: time.Second,
		Worker: &task.Worker{Processes: 1, Idle: time.Minute, Ready: 20 * time.Second},
	}
	for _, word := range argv {
		c.Argv = append(c.Argv, task.Argument{Template: exectest.Text(word), Dash: word == "-c"})
	}
	return c
}

// ends is a last line of the attempt that exectest makes.
func ends(end string) string { return `echo '{"id": 4211, "fence": 9, ` + end + `}' >&3` }

// TestCheckByWorker asks a check in one pool of workers, and then runs the attempt in another.
func TestCheckByWorker(t *testing.T) {
	r := runner(t, io.Discard)
	typ := &task.Type{
		Name: "a", Workers: 2, Policy: task.Policy{Check: 5 * time.Second},
		Check: shell(ends(`"result": {"done": false}`)), Target: shell(ends(`"result": "run"`)),
	}
	r.Declare([]*task.Type{typ}, 1)
	run := func() task.Outcome {
		l := exectest.Attempt{Policy: task.Policy{Check: 5 * time.Second}}.Lease()
		defer l.Close()
		return r.Run(l, typ)
	}
	o := run()
	require.Equal(t, task.Succeeded, o.Verdict, o.Error)
	require.JSONEq(t, `"run"`, string(o.Result))

	typ.Check = shell(ends(`"result": {"done": true, "result": "as it was"}`))
	r.Declare([]*task.Type{typ}, 1)
	o = run()
	require.True(t, o.InCheck)
	require.JSONEq(t, `"as it was"`, string(o.Result))
}

// TestStrayLinesAreCounted counts last lines that settle nothing.
func TestStrayLinesAreCounted(t *testing.T) {
	m := telemetry.NewMetrics(prometheus.NewRegistry())
	r := New(Options{Log: slog.New(slog.DiscardHandler), Metrics: m})
	defer r.Close()
	typ := &task.Type{Name: "a", Target: shell(`echo '{"id": 4211, "fence": 8, "result": 1}' >&3`)}
	l := exectest.Attempt{}.Lease()
	defer l.Close()
	o := r.Run(l, typ)
	require.Equal(t, task.Failed, o.Verdict, o.Error)
	require.InDelta(t, 1, testutil.ToFloat64(m.StrayLines.WithLabelValues("a")), 0)
	require.InDelta(t, 0, testutil.ToFloat64(m.StrayLines.WithLabelValues("b")), 0)
}
