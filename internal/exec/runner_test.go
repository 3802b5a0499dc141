package exec

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func runner(t *testing.T, log io.Writer) *Runner {
	t.Helper()
	r := New(Options{
		Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: telemetry.NewMetrics(prometheus.NewRegistry()), Version: "1", Workers: 2,
	})
	t.Cleanup(r.Close)
	return r
}

// attempt runs an attempt as the loop does: it reports the outcome to the breakers.
func attempt(r *Runner, t *task.Type, id task.ID) task.Outcome {
	l := exectest.Attempt{Task: task.Task{ID: id}}.Lease()
	defer l.Close()
	o := r.Run(l, t)
	r.Breakers().Done(t.Name, task.Run, id, o)
	return o
}

func TestRunnerRunsBothKinds(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "1") }))
	t.Cleanup(s.Close)
	r := runner(t, io.Discard)
	o := attempt(r, &task.Type{Name: "a", Target: &task.Webhook{URL: exectest.Text(s.URL)}}, 1)
	require.Equal(t, "1", string(o.Result))
	o = attempt(r, &task.Type{Name: "b", Target: &task.Command{
		Argv: []task.Argument{{Template: exectest.Text("echo")}, {Template: exectest.Text("hi")}}, StopSignal: syscall.SIGTERM,
	}}, 2)
	require.Equal(t, task.Outcome{Verdict: task.Succeeded, Output: "hi\n"}, o)
	require.Panics(t, func() { attempt(r, &task.Type{Name: "c"}, 3) })
}

// An application that is down costs one attempt's tries at a time; the others are refused before they start, and all
// of them run once it is back.
func TestApplicationRestarts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	url := "http://" + l.Addr().String()
	r := runner(t, io.Discard)
	typ := &task.Type{Name: "a", Target: &task.Webhook{URL: exectest.Text(url)}}

	o := attempt(r, typ, 1)
	require.Equal(t, task.Undelivered, o.Verdict)
	for id := range task.ID(5) {
		o = attempt(r, typ, 2+id)
		require.Equal(t, task.Drained, o.Verdict)
		require.True(t, o.Verdict.Releases())
		require.True(t, o.NeverStarted)
	}
	l, err = net.Listen("tcp", l.Addr().String())
	require.NoError(t, err)
	s := &httptest.Server{Listener: l, Config: &http.Server{ReadHeaderTimeout: time.Minute}}
	s.Start()
	t.Cleanup(s.Close)
	for n, wait := r.Breakers().Room("a", task.Run); n == 0; n, wait = r.Breakers().Room("a", task.Run) {
		<-time.After(wait)
	}
	o = attempt(r, typ, 9)
	require.Equal(t, task.Failed, o.Verdict, "404: the target was reached")
	n, _ := r.Breakers().Room("a", task.Run)
	require.NotContains(t, []int{closedForNow, oneTrial}, n)
}

func TestCommandThatCannotStart(t *testing.T) {
	var log bytes.Buffer
	r := runner(t, &log)
	typ := &task.Type{Name: "a", Source: "tasks.hcl:3", Target: &task.Command{Argv: []task.Argument{{Template: exectest.Text("no-such-program")}}}}
	require.Equal(t, task.Undelivered, attempt(r, typ, 7).Verdict)
	require.Contains(t, log.String(), "level=ERROR")
	require.Contains(t, log.String(), "task=7")
	require.Contains(t, log.String(), "no-such-program")
	n, wait := r.Breakers().Room("a", task.Run)
	require.Zero(t, n)
	require.Positive(t, wait)
}
