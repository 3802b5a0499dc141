package task_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestDataOfAnAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		state                         task.State
		rollbackPayload, result, want string
	}{
		"a run works on its payload":               {task.StateRunning, `{"b": 1}`, `{"rollback": {"c": 1}}`, `{"a": 1}`},
		"a rollback on the payload that is for it": {task.StateRollbackRunning, `{"b": 1}`, `{"rollback": {"c": 1}}`, `{"b": 1}`},
		"null is one":                          {task.StateRollbackRunning, `null`, `{"rollback": {"c": 1}}`, `null`},
		"else on what the run has left for it": {task.StateRollbackRunning, "", `{"x": [], "rollback" : {"c": 1} }`, `{"c": 1}`},
		"which is an object":                   {task.StateRollbackRunning, "", `{"rollback": "c"}`, `{"a": 1}`},
		"of that very name":                    {task.StateRollbackRunning, "", `{"Rollback": {"c": 1}}`, `{"a": 1}`},
		"in an object":                         {task.StateRollbackRunning, "", `["rollback", {"c": 1}]`, `{"a": 1}`},
		"else on the payload":                  {task.StateRollbackRunning, "", "", `{"a": 1}`},
		"also before it is claimed":            {task.StateRollbackPending, `{"b": 1}`, "", `{"b": 1}`},
	} {
		t.Run(name, func(t *testing.T) {
			row := &task.Task{State: c.state, Payload: json.RawMessage(`{"a": 1}`)}
			if c.rollbackPayload != "" {
				row.RollbackPayload = json.RawMessage(c.rollbackPayload)
			}
			if c.result != "" {
				row.Result = json.RawMessage(c.result)
			}
			require.Equal(t, c.want, string(row.Data()))
		})
	}
}
