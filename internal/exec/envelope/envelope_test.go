package envelope

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"
)

var noon = time.Date(2026, 11, 20, 8, 0, 0, 123456789, time.UTC)

func TestJSONWhole(t *testing.T) {
	e := Envelope{
		Task: &task.Task{
			ID: 4211, Type: "send-invoice", State: task.StateRunning, Fence: 9, Attempt: 2,
			Payload: json.RawMessage(`{ "invoice": 7.00, "html": "<b>&" }`),
			Labels:  json.RawMessage(`{"tenant": "acme"}`),
			Key:     "invoice-7", Region: "sg", Batch: 17, Checkpoint: json.RawMessage(`{"page": 40}`),
			Previous: &task.Previous{Outcome: task.Stalled, Error: "said \"no\"\n"},
		},
		Phase: task.Run, Type: "invoice.send", MaxAttempts: 3, Now: noon, Deadline: noon.Add(30 * time.Second), Remaining: 30 * time.Second,
		Heartbeat: 10 * time.Second, PingURL: "http://127.0.0.1:7070/ping/4211.9.mac",
	}
	got, err := e.JSON()
	require.NoError(t, err)
	require.Equal(t, `{"type":"invoice.send","timestamp":"2026-11-20T08:00:00.123456Z",`+
		`"data":{ "invoice": 7.00, "html": "<b>&" },"task":{"id":4211,"phase":"run","attempt":2,"max_attempts":3,"fence":9,`+
		`"deadline":"2026-11-20T08:00:30.123456Z","remaining_s":30.000,"heartbeat_s":10.000,`+
		`"ping_url":"http://127.0.0.1:7070/ping/4211.9.mac","batch":17,"key":"invoice-7","region":"sg",`+
		`"labels":{"tenant": "acme"},"checkpoint":{"page": 40},`+
		`"previous":{"outcome":"stalled","error":"said \"no\"\n"}}}`, string(got))
	require.True(t, json.Valid(got))
}

func TestJSONBare(t *testing.T) {
	e := Envelope{Task: &task.Task{ID: 1, State: task.StateRunning, Attempt: 1, Payload: json.RawMessage(`{}`)}, Type: "a"}
	got, err := e.JSON()
	require.NoError(t, err)
	var doc struct {
		Task map[string]any `json:"task"`
	}
	require.NoError(t, json.Unmarshal(got, &doc))
	require.Equal(t, map[string]any{}, doc.Task["labels"])
	for _, name := range []string{"batch", "key", "region", "checkpoint", "previous", "heartbeat_s", "ping_url"} {
		value, there := doc.Task[name]
		require.True(t, there, name)
		require.Nil(t, value, name)
	}
	require.NotContains(t, doc.Task, "outcome", "only a rollback has it")
	require.NotContains(t, doc.Task, "result")
}

func TestJSONOfARollback(t *testing.T) {
	row := &task.Task{
		ID: 1, State: task.StateRollbackRunning, Attempt: 1, Payload: json.RawMessage(`{"to": "az2"}`), Cause: task.TimedOut,
		Result: json.RawMessage(`{"rollback": {"to": "az1"}, "moved": true}`),
	}
	e := Envelope{Task: row, Phase: task.Rollback, Type: "a"}
	got, err := e.JSON()
	require.NoError(t, err)
	require.Contains(t, string(got), `"data":{"to": "az1"},"task":{"id":1,"phase":"rollback"`)
	require.Regexp(t, `,"previous":null,"outcome":"timed_out","result":\{"rollback": \{"to": "az1"\}, "moved": true\}\}\}$`, string(got))

	row.Result, row.RollbackPayload = nil, json.RawMessage(`[1]`)
	got, err = e.JSON()
	require.NoError(t, err)
	require.Contains(t, string(got), `"data":[1],`)
	require.Contains(t, string(got), `"outcome":"timed_out","result":null}}`)
}

func TestJSONRefusesWhatIsNone(t *testing.T) {
	for _, row := range []task.Task{
		{Payload: json.RawMessage(`{`)},
		{Payload: json.RawMessage(`{}},"task":{"id":1`)},
		{Payload: json.RawMessage(``)},
		{Payload: json.RawMessage(`{}`), Labels: json.RawMessage(`x`)},
		{Payload: json.RawMessage(`{}`), Checkpoint: json.RawMessage(`1 2`)},
		{Payload: json.RawMessage(`{}`), State: task.StateRollbackRunning, Result: json.RawMessage(`{`)},
		{Payload: json.RawMessage(`{}`), State: task.StateRollbackRunning, RollbackPayload: json.RawMessage(`{`)},
	} {
		e := Envelope{Task: &row}
		_, err := e.JSON()
		require.ErrorContains(t, err, "JSON", "%s", row.Payload)
	}
}

func TestOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := exectest.Attempt{
			Task:   task.Task{MaxAttempts: 7, Deadline: time.Now().Add(12 * time.Second)},
			Policy: task.Policy{Timeout: 30 * time.Second, Heartbeat: 4 * time.Second, Retry: task.Retry{Limit: 2}},
		}.Lease()
		defer l.Close()
		time.Sleep(2 * time.Second) // the bubble's time
		l.SetPingURL(func() string { return "http://127.0.0.1:7070/ping/x" })
		e := Of(l, &task.Type{Name: "invoice.send"})
		require.Equal(t, 4*time.Second, e.Heartbeat)
		require.Equal(t, "http://127.0.0.1:7070/ping/x", e.PingURL)
		require.Equal(t, "invoice.send", e.Type)
		require.Equal(t, 7, e.MaxAttempts)
		require.Equal(t, 10*time.Second, e.Remaining, "the task's own deadline comes first")
		require.WithinDuration(t, time.Now().Add(10*time.Second), e.Deadline, 0)
		require.Equal(t, task.Run, e.Phase)
	})
}

// A check is asked in the name of its attempt: with a time of its own, and no place to ping.
func TestOfACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := exectest.Attempt{
			Task: task.Task{Attempt: 2}, Policy: task.Policy{Heartbeat: 4 * time.Second, Check: 3 * time.Second, Retry: task.Retry{Limit: 2}},
		}.Lease()
		defer l.Close()
		l.SetPingURL(func() string { return "http://127.0.0.1:7070/ping/x" })
		c := l.Check()
		defer c.Close()
		e := Of(c, &task.Type{Name: "invoice.send"})
		require.Equal(t, task.Check, e.Phase)
		require.Equal(t, 3, e.MaxAttempts)
		require.Equal(t, 3*time.Second, e.Remaining)
		require.Zero(t, e.Heartbeat)
		require.Empty(t, e.PingURL)
		require.Equal(t, 2, e.Task.Attempt)
	})
}

func TestMessageID(t *testing.T) {
	for want, e := range map[string]Envelope{
		"task_7":             {Phase: task.Run, Task: &task.Task{ID: 7, Attempt: 3, Fence: 12}},
		"task_7_r2":          {Phase: task.Run, Task: &task.Task{ID: 7, Round: 2}},
		"task_7_rollback":    {Phase: task.Rollback, Task: &task.Task{ID: 7}},
		"task_7_r1_rollback": {Phase: task.Rollback, Task: &task.Task{ID: 7, Round: 1}},
		"task_7_check_12":    {Phase: task.Check, Task: &task.Task{ID: 7, Fence: 12, Round: 1}},
	} {
		require.Equal(t, want, e.MessageID())
	}
}

func TestTraceparent(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, parent := range []string{"00-" + trace + "-00f067aa0ba902b7-00", "01-" + trace + "-00f067aa0ba902b7-00-more"} {
		got := traceparent(parent, "")
		require.Regexp(t, "^00-"+trace+"-[0-9a-f]{16}-00$", got)
		require.NotContains(t, got, "00f067aa0ba902b7", "a child, not the same span")
		require.Equal(t, got, traceparent(parent, ""), "whoever asks: an agent that exports the span, and one that links to it")
	}
	for _, bad := range []string{
		"", "x", "00-" + trace + "-00f067aa0ba902b7", "00-" + trace + "-00f067aa0ba902b7-00-more",
		"ff-" + trace + "-00f067aa0ba902b7-00", "00-" + trace + "-0000000000000000-00",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-00", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-00",
		"00-" + trace + "-00f067aa0ba902b7-00\r\nX-Evil: 1", "00-" + trace[:31] + "-00f067aa0ba902b7--00",
	} {
		require.Regexp(t, "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$", traceparent(bad, ""), bad)
		require.NotContains(t, traceparent(bad, ""), trace, bad)
	}
	own := "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
	require.Regexp(t, "^00-0af7651916cd43dd8448eb211c80319c-", traceparent("", own), "a row without one")
	require.Regexp(t, "^00-0af7651916cd43dd8448eb211c80319c-", traceparent("x", own), "a row with a bad one")
	require.Regexp(t, "^00-"+trace+"-", traceparent("00-"+trace+"-00f067aa0ba902b7-00", own))
	one, another := traceparent("", ""), traceparent("", "")
	require.NotEqual(t, one, another)
	e := Envelope{Task: &task.Task{Traceparent: own}, TraceFlags: "00"}
	require.Regexp(t, "-00$", e.Traceparent(), "the agent does not sample it")
}

// traceparent is the trace context of an attempt of a row that has that one, and whose own is derived.
func traceparent(of, derived string) string {
	return (&Envelope{Task: &task.Task{ID: 7, Fence: 1, Traceparent: of}, Phase: task.Run, Trace: derived}).Traceparent()
}

func TestTimesHaveSixDigits(t *testing.T) {
	const layout = "2006-01-02T15:04:05.000000Z07:00"
	cairo := time.FixedZone("", 2*60*60)
	for _, at := range []time.Time{
		{}, noon, noon.In(cairo), time.Unix(0, 0), time.Unix(1, 999_999_999), time.Unix(1, 999), time.Unix(1, 1_000), time.Unix(1, 100_000_000),
		time.Date(9999, 12, 31, 23, 59, 59, 5_000, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		require.Equal(t, at.UTC().Format(layout), Time(at))
	}
}
