package ops

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func TestReadRequest(t *testing.T) {
	r, err := ReadRequest([]byte(`{
  "type": "index.update", "payload": [1], "key": "page-7", "batch": null, "created_by": "alice",
  "debounce": "10s", "debounce_max": "1d1h", "labels": {"a": "b"}, "after_if": null
}`), "body", store.EnqueueRequest{CreatedBy: "api"})
	require.NoError(t, err)
	require.Equal(t, store.EnqueueRequest{
		Type: "index.update", Payload: json.RawMessage("[1]"), Key: "page-7", CreatedBy: "alice", Debounce: 10 * time.Second,
		DebounceMax: 25 * time.Hour, Labels: map[string]string{"a": "b"},
	}, r)
	r, err = ReadRequest([]byte(`{"type": "x", "in": "1h30m", "batch": 17, "after": [1, 2], "on_live": "keep"}`), "body", store.EnqueueRequest{CreatedBy: "api"})
	require.NoError(t, err)
	require.Equal(t, store.EnqueueRequest{
		Type: "x", In: 90 * time.Minute, Batch: 17, After: []task.ID{1, 2}, OnLive: store.OnLiveKeep, CreatedBy: "api",
	}, r)
	for doc, text := range map[string]string{
		"":                                      "body:1:1: a task is an object",
		"{\n\n  \"type\": \"x\",\n \"ref\": 1}": `body:4:2: "ref" is not a column`,
		"{\n\"type\": 1}":                       "body:2:9: type must be a string, not 1",
		"{\n\"type\": \"x\",}":                  "body:2:14: this is not JSON",
		`{"payload": 1}`:                        `body:1:1: the task has no type: add "type"`,
		`{"type": "x", "in": "5"}`:              `body:1:21: in must be a duration such as "90s", "1h30m" or "7d", not "5"`,
	} {
		_, err := ReadRequest([]byte(doc), "body", store.EnqueueRequest{})
		var input *store.InputError
		require.ErrorAs(t, err, &input, doc)
		require.Contains(t, input.Text, text, doc)
	}
}

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "0s": 0, "0d": 0,
	} {
		got, err := ParseSpan(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "5", "-1s", "d", "36501d", "1d-1h", "999999999h", "1.5d", "7d7d"} {
		_, err := ParseSpan(text)
		require.ErrorContains(t, err, "use a form such as 90s", text)
	}
}
