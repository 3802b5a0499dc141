package envelope

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestJSONOfWhatWasWaitedFor(t *testing.T) {
	e := Envelope{
		Task: &task.Task{ID: 9, State: task.StateRunning, Attempt: 1, Payload: json.RawMessage(`{}`)}, Type: "a", Phase: task.Run,
		After: &task.After{Truncated: true, Tasks: []task.Predecessor{
			{ID: 3, Type: "b", State: task.StateSucceeded, Result: json.RawMessage(`{"file": "a.png"}`)},
			{ID: 4, Type: "b", State: task.StateFailed},
			{ID: 5},
		}},
	}
	want := `[{"id":3,"type":"b","state":"succeeded","result":{"file": "a.png"}},` +
		`{"id":4,"type":"b","state":"failed","result":null},{"id":5,"type":null,"state":null,"result":null}]`
	for name, write := range map[string]func() ([]byte, error){"alone": e.JSON, "of many": e.OneOfMany} {
		got, err := write()
		require.NoError(t, err, name)
		require.True(t, json.Valid(got), name)
		require.Contains(t, string(got), `,"after":`+want+`,"after_truncated":true`, name)
	}
	e.Phase = task.Rollback
	got, err := e.JSON()
	require.NoError(t, err)
	require.NotContains(t, string(got), "after_truncated", "a rollback does not depend on it")
	e.After.Tasks[0].Result = json.RawMessage(`{`)
	_, err = e.JSON()
	require.ErrorContains(t, err, "the result of task 3")
}

func TestJSONOfOneThatWaitedForNothing(t *testing.T) {
	e := Envelope{Task: &task.Task{ID: 1, State: task.StateRunning, Payload: json.RawMessage(`{}`)}, Type: "a", Phase: task.Run}
	got, err := e.JSON()
	require.NoError(t, err)
	require.NotContains(t, string(got), "after")
	e.After = &task.After{Tasks: []task.Predecessor{}}
	got, err = e.JSON()
	require.NoError(t, err)
	require.Contains(t, string(got), `"after":[],"after_truncated":false`)
}
