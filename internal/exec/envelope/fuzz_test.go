package envelope

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

// FuzzJSON writes any row into an envelope and reads it back: the members are those of the protocol, once each and in
// its order, each says what the row says, and the row's own JSON stands there byte for byte.
func FuzzJSON(f *testing.F) {
	f.Add("invoice.send", []byte(`{"invoice": 7}`), []byte(`{"a":"b"}`), []byte(`{"page": 40}`), "key", "sg", "error", "http://127.0.0.1:7070/ping/1", int64(30e9), int64(1e9))
	f.Add("\x00\xff\"\\", []byte(`[1e5]`), []byte(nil), []byte(nil), "", "", "\u2028", "", int64(-1), int64(0))
	f.Add("a", []byte(`{}},"task":{"id":5}`), []byte(`1`), []byte(` null `), "é", "<&>", "x", "\x7f", int64(1<<62), int64(-1<<63))
	f.Add("</script>", []byte(`"\ud800"`), []byte(`{"a":{},"a":[]}`), []byte("1 2"), `","fence":99,"`, "\r\n", "\xc3\x28", "\u007f", int64(1), int64(1))
	f.Add(`"`, []byte("\n{\t}\r "), []byte(`{`), []byte(`"}}"`), `\`, `\"`, `"}`, "'", int64(1500e6), int64(499999))
	f.Fuzz(func(t *testing.T, name string, payload, labels, checkpoint []byte, key, region, text, url string, remaining, heartbeat int64) {
		if len(payload)+len(labels)+len(checkpoint) > 16<<10 {
			return
		}
		row := task.Task{
			ID: 5, State: task.StateRunning, Attempt: 1, Fence: 3, Payload: payload, Key: key, Region: region,
			Labels: orNil(labels), Checkpoint: orNil(checkpoint), Previous: &task.Previous{Outcome: task.Failed, Error: text},
		}
		e := Envelope{
			Task: &row, Phase: task.Run, Type: name, MaxAttempts: 7, Now: noon, Deadline: noon.Add(time.Duration(remaining)),
			Remaining: time.Duration(remaining), Heartbeat: time.Duration(heartbeat), PingURL: url,
		}
		before := bytes.Join([][]byte{payload, labels, checkpoint}, nil)
		got, err := e.JSON()
		require.Equal(t, before, bytes.Join([][]byte{payload, labels, checkpoint}, nil), "the row is only read")
		good := json.Valid(payload) && (row.Labels == nil || json.Valid(labels)) && (row.Checkpoint == nil || json.Valid(checkpoint))
		require.Equal(t, good, err == nil, "%v", err)
		if err != nil {
			require.Nil(t, got)
			return
		}
		require.True(t, json.Valid(got), "%s", got)
		doc := members(t, got, "type", "timestamp", "data", "task")
		require.Equal(t, asText(name), str(t, doc["type"]))
		require.Equal(t, Time(noon), str(t, doc["timestamp"]))
		require.Equal(t, string(bytes.TrimSpace(payload)), string(doc["data"]))
		require.True(t, bytes.Contains(got, payload), "byte for byte")
		require.True(t, bytes.Contains(got, labels), "byte for byte")
		require.True(t, bytes.Contains(got, checkpoint), "byte for byte")
		same(t, &e, members(t, doc["task"], "id", "phase", "attempt", "max_attempts", "fence", "deadline", "remaining_s", "heartbeat_s",
			"ping_url", "batch", "key", "region", "labels", "checkpoint", "previous"))
		rolledBack(t, e, payload, checkpoint)
	})
}

// rolledBack writes the envelope of the row's rollback, which has data and the run's result.
func rolledBack(t *testing.T, e Envelope, data, result []byte) {
	t.Helper()
	row := *e.Task
	row.State, row.Cause, row.Payload, row.RollbackPayload, row.Result = task.StateRollbackRunning, task.Lost, nil, data, orNil(result)
	e.Task, e.Phase = &row, task.Rollback
	got, err := e.JSON()
	require.NoError(t, err)
	doc := members(t, got, "type", "timestamp", "data", "task")
	require.Equal(t, string(bytes.TrimSpace(data)), string(doc["data"]))
	fields := members(t, doc["task"], "id", "phase", "attempt", "max_attempts", "fence", "deadline", "remaining_s", "heartbeat_s",
		"ping_url", "batch", "key", "region", "labels", "checkpoint", "previous", "outcome", "result")
	require.Equal(t, `"lost"`, string(fields["outcome"]))
	want := "null"
	if row.Result != nil {
		want = string(bytes.TrimSpace(row.Result))
	}
	require.Equal(t, want, string(fields["result"]))
}

// same requires that the task's members say what the envelope does.
func same(t *testing.T, e *Envelope, got map[string]json.RawMessage) {
	t.Helper()
	row := e.Task
	for name, want := range map[string]string{
		"id": "5", "phase": `"run"`, "attempt": "1", "max_attempts": "7", "fence": "3", "labels": "{}", "checkpoint": "null",
		"batch": "null",
	} {
		for member, raw := range map[string]json.RawMessage{"labels": row.Labels, "checkpoint": row.Checkpoint} {
			if name == member && raw != nil {
				want = string(bytes.TrimSpace(raw))
			}
		}
		require.Equal(t, want, string(got[name]), name)
	}
	for name, want := range map[string]string{"ping_url": e.PingURL, "key": row.Key, "region": row.Region} {
		if want == "" {
			require.Equal(t, "null", string(got[name]), name)
			continue
		}
		require.Equal(t, asText(want), str(t, got[name]), name)
	}
	deadline, err := time.Parse(time.RFC3339Nano, str(t, got["deadline"]))
	require.NoError(t, err)
	require.True(t, deadline.Equal(e.Deadline.Truncate(time.Microsecond)), "%s", deadline)
	require.InDelta(t, e.Remaining.Seconds(), seconds(t, got["remaining_s"]), 0.0005+1e-9*max(e.Remaining.Seconds(), -e.Remaining.Seconds()))
	if e.Heartbeat > 0 {
		require.InDelta(t, e.Heartbeat.Seconds(), seconds(t, got["heartbeat_s"]), 0.0005+1e-9*e.Heartbeat.Seconds())
	} else {
		require.Equal(t, "null", string(got["heartbeat_s"]))
	}
	previous := members(t, got["previous"], "outcome", "error")
	require.Equal(t, `"failed"`, string(previous["outcome"]))
	require.Equal(t, asText(row.Previous.Error), str(t, previous["error"]))
}

func orNil(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	return raw
}

// asText is what becomes of a string in JSON.
func asText(s string) string { return string([]rune(s)) }

// members takes an object apart, whose members have these names, in this order.
func members(t *testing.T, doc []byte, names ...string) map[string]json.RawMessage {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(doc))
	open, err := dec.Token()
	require.NoError(t, err)
	require.Equal(t, json.Delim('{'), open)
	var found []string
	values := make(map[string]json.RawMessage)
	for dec.More() {
		token, err := dec.Token()
		require.NoError(t, err)
		name, ok := token.(string)
		require.True(t, ok)
		var value json.RawMessage
		require.NoError(t, dec.Decode(&value))
		found = append(found, name)
		values[name] = value
	}
	require.Equal(t, names, found)
	return values
}

func str(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var s *string
	require.NoError(t, json.Unmarshal(raw, &s))
	require.NotNil(t, s)
	return *s
}

func seconds(t *testing.T, raw json.RawMessage) float64 {
	t.Helper()
	s, err := strconv.ParseFloat(string(raw), 64)
	require.NoError(t, err)
	return s
}

// FuzzTraceparent hands on any trace context: what comes out is one, a child of what went in or the start of a trace.
func FuzzTraceparent(f *testing.F) {
	for _, s := range []string{
		"", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-00\r\n",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7--01",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, parent string) {
		got := traceparent(parent, "")
		require.Regexp(t, `^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`, got)
		c, ok := task.ParseTraceparent(got)
		require.True(t, ok, got)
		if of, ok := task.ParseTraceparent(parent); ok {
			require.Equal(t, []string{of.Trace, of.Flags}, []string{c.Trace, c.Flags})
			require.Equal(t, parent[3:35], c.Trace)
			require.NotEqual(t, parent[36:52], got[36:52], "a child, not the same span")
			return
		}
		require.Equal(t, "01", c.Flags)
	})
}
