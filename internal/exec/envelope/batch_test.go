package envelope

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

// The elements of a request with several tasks have the data and the task of each one's own envelope, and what its header would say.
func TestManyTasks(t *testing.T) {
	row := func(id task.ID) *Envelope {
		return &Envelope{
			Task: &task.Task{
				ID: id, State: task.StateRunning, Fence: 9, Attempt: 2, Payload: json.RawMessage(`{ "invoice": 7.00 }`), Round: 2,
				Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
			},
			Phase: task.Run, Type: "invoice.send", Now: noon, Deadline: noon.Add(30 * time.Second), Remaining: 30 * time.Second,
			PingURL: "http://127.0.0.1:7070/ping/1",
		}
	}
	b := AppendMany(nil, "invoice.send", noon)
	b, err := row(1).AppendElement(b)
	require.NoError(t, err)
	b = append(b, ',')
	bad := row(3)
	bad.Task.Payload = json.RawMessage(`{`)
	same, err := bad.AppendElement(b)
	require.ErrorContains(t, err, "the payload of task 3 is not JSON")
	require.Equal(t, b, same)
	b, err = row(2).AppendElement(b)
	require.NoError(t, err)
	b = append(b, ManyTail...)

	var doc struct {
		Type, Timestamp string
		Data            struct {
			Tasks []struct {
				Data json.RawMessage
				Task map[string]any
			}
		}
	}
	require.NoError(t, json.Unmarshal(b, &doc), "%s", b)
	require.Equal(t, "invoice.send", doc.Type)
	require.Equal(t, "2026-11-20T08:00:00.123456Z", doc.Timestamp)
	require.Len(t, doc.Data.Tasks, 2)
	for i, element := range doc.Data.Tasks {
		require.Equal(t, `{ "invoice": 7.00 }`, string(element.Data))
		one, err := row(task.ID(i + 1)).JSON()
		require.NoError(t, err)
		var alone struct{ Task map[string]any }
		require.NoError(t, json.Unmarshal(one, &alone))
		require.Equal(t, []any{"task_1_r2", "task_2_r2"}[i], element.Task["webhook_id"])
		require.Regexp(t, "^00-4bf92f3577b34da6a3ce929d0e0e4736-[0-9a-f]{16}-00$", element.Task["traceparent"])
		delete(element.Task, "webhook_id")
		delete(element.Task, "traceparent")
		require.Equal(t, alone.Task, element.Task)
	}
	one, err := row(1).OneOfMany()
	require.NoError(t, err)
	doc.Data.Tasks = nil
	require.NoError(t, json.Unmarshal(one, &doc))
	require.Len(t, doc.Data.Tasks, 1)
	_, err = bad.OneOfMany()
	require.Error(t, err)
}
