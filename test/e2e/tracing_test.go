package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/leasehold/leasehold/test/harness"
)

// TestSpans: what agents export is one trace of each task, from the row to the target, whatever becomes of it: a retry, a rollback, an
// operator's retry, a batch, a schedule. The span that a target gets as its parent is exported, and every link leads to a span.
func TestSpans(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		c := newCollector(t)
		d.env = c.environment("OTEL_RESOURCE_ATTRIBUTES=deployment.environment=test")
		d.more = "schedule \"tick\" {\n  task = \"work\"\n  every = \"1s\"\n}\n"
		a, b := d.traced("one"), d.traced("two")
		retried, undone := d.enqueue(`{"run": ["fail", "ok"]}`), d.enqueue(`{"run": ["reject"], "rollback": ["fail", "ok"], "secret": ["sesame"]}`)
		const trace, above = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
		of, unsampled := d.insertTraced("00-"+trace+"-"+above+"-01"), d.insertTraced("00-"+trace+"-"+above+"-00")
		batch := d.insertBatch("move")
		d.becomes(undone, "rolled_back")
		d.request("retry", undone)
		d.awaits(undone, "run", 2)
		d.becomes(undone, "rolled_back")
		for _, id := range []int64{retried, of, unsampled, batch} {
			d.becomes(id, "succeeded")
		}
		harness.Until(t, workWithin, "a slot is run and the batch has ended", func() bool {
			all := c.spans(t)
			return len(named(all, "fire tick")) > 0 && len(named(all, "batch move")) > 0 && d.scheduled() > 0
		})
		a.Drain(t)
		b.Drain(t)
		all := c.spans(t)
		d.areExported(all, unsampled)
		linksLead(t, all)
		isTrace(t, all, trace, above)
		for _, call := range d.calls(unsampled) {
			require.Regexp(t, "-00$", call.Trace)
		}
		runs := d.spansOf(all, retried, "work run")
		require.Len(t, runs, 2)
		require.True(t, runs[0].Failed)
		require.Equal(t, "failed", runs[0].Attributes["error.type"])
		require.False(t, runs[1].Failed)
		require.Equal(t, runs[:1], runs[1].linked(all, "previous"))
		runs, rollbacks := d.spansOf(all, undone, "work run"), d.spansOf(all, undone, "work rollback")
		require.Len(t, runs, 2)
		require.Equal(t, runs[:1], rollbacks[0].linked(all, "previous"))
		require.Equal(t, rollbacks[:1], rollbacks[1].linked(all, "previous"))
		require.Equal(t, rollbacks[1:2], runs[1].linked(all, "previous"), "an operator's retry")
		require.Equal(t, named(all, "batch move"), d.spansOf(all, batch, "work run")[0].linked(all, "batch"))
		require.Equal(t, "leasehold", c.resource["service.name"])
		require.Equal(t, "test", c.resource["deployment.environment"])
		require.NotContains(t, fmt.Sprint(all), "sesame")
		logged := a.Tail() + b.Tail()
		require.Contains(t, logged, `"trace_id":"`+runs[0].Trace+`"`)
		require.Contains(t, logged, `"span_id":"`+runs[0].ID+`"`)
	})
}

// traced starts an agent whose type "work" is asked, run and rolled back by the fake target, and never asynchronously.
func (d *fakeTarget) traced(name string) *harness.Agent {
	d.t.Helper()
	target := fmt.Sprintf("webhook {\n    url = %q\n  }", d.url)
	return d.declare(name, "check {\n  "+target+"\n  }\n  "+target+"\n  rollback {\n    retry {\n      limit = 1\n      min = \"10ms\"\n    }\n    "+
		target+"\n  }")
}

// areExported asserts that each request's parent is the exported span of its attempt and phase; but for those of that task.
func (d *fakeTarget) areExported(all map[string]span, but int64) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.came {
		s, ok := all[c.Trace[3:35]+" "+c.Trace[36:52]]
		require.Equal(d.t, c.Task.ID != but, ok, "%s of task %d: %s", c.Phase, c.Task.ID, c.Trace)
		if ok {
			require.Equal(d.t, "work "+c.Phase, s.Name)
			require.Equal(d.t, otlp.Span_SPAN_KIND_CONSUMER, s.Kind)
			require.Equal(d.t, strconv.FormatInt(c.Task.ID, 10), s.Attributes["messaging.message.id"])
		}
	}
}

// linksLead asserts that every link of an attempt leads to an exported span, its claim's back to it, and that a settlement follows it. A
// claim links to rows too that it got and that were released unstarted, when the agent drained.
func linksLead(t *testing.T, all map[string]span) {
	t.Helper()
	settled := map[string]int{}
	for _, s := range all {
		for _, l := range s.Links {
			if s.Name == "claim" {
				continue
			}
			require.Contains(t, all, l.Trace+" "+l.ID, "the link of %+v as %q", s, l.What)
		}
		if s.Name == "settle" {
			settled[s.Trace+" "+s.Parent]++
		}
	}
	for id, s := range all {
		switch s.Name {
		case "work run", "work rollback":
			require.Equal(t, 1, settled[id], "settlements of %+v", s)
			require.Len(t, s.linked(all, "claim"), 1)
			claim := s.linked(all, "claim")[0]
			require.Equal(t, "claim", claim.Name)
			require.Contains(t, claim.Links, spanLink{Trace: s.Trace, ID: s.ID})
			if s.Attributes["leasehold.attempt"] != "1" {
				require.Len(t, s.linked(all, "previous"), 1, "%+v", s)
			}
		case "work check":
			run := all[s.Trace+" "+s.Parent]
			require.Equal(t, "work run", run.Name)
			require.LessOrEqual(t, run.Start, s.Start)
			require.LessOrEqual(t, s.End, run.End)
		}
		require.LessOrEqual(t, s.Start, s.End, "%+v", s)
	}
}

// isTrace asserts that the attempts of a row that was inserted with a trace context are below the span that inserted it.
func isTrace(t *testing.T, all map[string]span, trace, above string) {
	t.Helper()
	n := 0
	for _, s := range all {
		if s.Trace == trace && s.Name == "work run" {
			require.Equal(t, above, s.Parent)
			n++
		}
	}
	require.Equal(t, 1, n)
}

// spansOf lists the spans of a name of a task, the earliest first.
func (d *fakeTarget) spansOf(all map[string]span, id int64, name string) (of []span) {
	for _, s := range named(all, name) {
		if s.Attributes["messaging.message.id"] == strconv.FormatInt(id, 10) {
			of = append(of, s)
		}
	}
	return of
}

// insertTraced inserts a row with a trace context.
func (d *fakeTarget) insertTraced(traceparent string) int64 {
	d.t.Helper()
	return d.id(`INSERT INTO ` + d.schema() + `task (type, payload, traceparent) VALUES ('work', '{}', '` + traceparent + `') RETURNING id`)
}

// insertBatch inserts a batch of one row, and returns the row's id.
func (d *fakeTarget) insertBatch(name string) int64 {
	d.t.Helper()
	batch := d.id(`INSERT INTO ` + d.schema() + `batch (name, sealed) VALUES ('` + name + `', false) RETURNING id`)
	id := d.id(fmt.Sprintf(`INSERT INTO %stask (type, payload, batch_id) VALUES ('work', '{}', %d) RETURNING id`, d.schema(), batch))
	harness.MustRun(d.t, nil, "batch", "seal", strconv.FormatInt(batch, 10), "--store", d.store)
	return id
}

// id runs SQL that returns an id.
func (d *fakeTarget) id(query string) (id int64) {
	d.t.Helper()
	db := d.open()
	defer func() { require.NoError(d.t, db.Close()) }()
	require.NoError(d.t, db.QueryRowContext(d.t.Context(), query).Scan(&id), query)
	return id
}

// scheduled counts the tasks of schedules that have finished.
func (d *fakeTarget) scheduled() int64 {
	d.t.Helper()
	return d.id(`SELECT count(*) FROM ` + d.schema() + `tasks WHERE created_by = 'schedule:tick' AND state = 'succeeded'`)
}

// TestSpanOfAKilledAgent: the agent that reaps an attempt exports its span, so that the trace has no hole.
func TestSpanOfAKilledAgent(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		c := newCollector(t)
		d.env = c.environment()
		a := d.agent("one")
		id := d.enqueue(`{"run": ["hang", "ok"]}`)
		d.awaits(id, "run", 1)
		a.Kill(t)
		b := d.agent("two")
		d.becomes(id, "succeeded")
		text := harness.MustRun(t, nil, "task", "show", strconv.FormatInt(id, 10), "--store", d.store)
		require.Regexp(t, `\nrun +1 +lost +retry_pending +\S+Z +[^\n]+ s +one, reaped by two +its agent is gone\nrun +2 +succeeded [^\n]* two\n`, text)
		b.Drain(t)
		runs := d.spansOf(c.spans(t), id, "work run")
		require.Len(t, runs, 2)
		require.Equal(t, "lost", runs[0].Attributes["leasehold.outcome"])
		require.Equal(t, "one", runs[0].Attributes["leasehold.agent"], "and not the one that reaped it")
		require.Equal(t, "two", runs[1].Attributes["leasehold.agent"])
		require.Equal(t, d.calls(id)[1].Trace[36:52], runs[0].ID)
		require.Equal(t, runs[:1], runs[1].linked(c.spans(t), "previous"))
	})
}

// TestCollectorFails: a collector that does not answer, answers with errors, or is not there, slows no task and no drain. It is logged once,
// and what is not exported is counted.
func TestCollectorFails(t *testing.T) {
	silence := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-silence }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(silence) })
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(refuses.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for name, url := range map[string]string{"silent": silent.URL, "refuses": refuses.URL, "gone": "http://" + closed.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			d := newTarget(t, "sqlite:"+t.TempDir()+"/leasehold.db")
			d.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_BSP_MAX_QUEUE_SIZE=32", "OTEL_BSP_SCHEDULE_DELAY=20"}
			listen := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t))
			d.listen = listen
			a := d.agent("one")
			var last int64
			for range 50 {
				last = d.id(`INSERT INTO task (type, payload) VALUES ('work', '{}') RETURNING id`)
			}
			d.becomes(last, "succeeded")
			harness.Until(t, workWithin, "all have succeeded, and dropped spans are counted", func() bool {
				return d.id(`SELECT count(*) FROM tasks WHERE state = 'succeeded'`) == 50 && dropped(t, listen)
			})
			start := time.Now()
			a.Drain(t)
			require.Less(t, time.Since(start), 9*time.Second)
			require.LessOrEqual(t, strings.Count(a.Tail(), "spans cannot be exported"), 1, a.Tail())
		})
	}
}

// dropped reports whether an agent has counted spans that were not exported.
func dropped(t *testing.T, listen string) bool {
	t.Helper()
	for line := range strings.Lines(metricsOf(t, listen)) {
		if strings.HasPrefix(line, "leasehold_spans_dropped_total{") && !strings.HasSuffix(line, " 0\n") {
			return true
		}
	}
	return false
}

// metricsOf returns an agent's metrics.
func metricsOf(t *testing.T, listen string) string {
	t.Helper()
	resp, err := (&http.Client{Timeout: sqlWithin}).Get("http://" + listen + "/metrics") //nolint:noctx // it has a time limit
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

// TestNoSpans: without the variables, or with others that are against it, nothing is sent; the target's parent stays what it is. What is not
// supported is said, with its remedy.
func TestNoSpans(t *testing.T) {
	c := newCollector(t)
	for name, env := range map[string][]string{
		"unset": nil, "disabled": c.environment("OTEL_SDK_DISABLED=true"), "none": c.environment("OTEL_TRACES_EXPORTER=none"),
		"grpc": c.environment("OTEL_EXPORTER_OTLP_PROTOCOL=grpc"),
	} {
		t.Run(name, func(t *testing.T) {
			d := newTarget(t, "sqlite:"+t.TempDir()+"/leasehold.db")
			d.env = env
			a := d.agent("one")
			id := d.enqueue(`{}`)
			d.becomes(id, "succeeded")
			a.Drain(t)
			require.Regexp(t, "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$", d.calls(id)[1].Trace)
			require.Equal(t, name == "grpc", strings.Contains(a.Tail(), "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf"), a.Tail())
		})
	}
	require.Zero(t, c.requests.Load())
}
