package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// operateActions are those of operators, and of who carries on what they want.
func (m *machine) operateActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"retry": func(t *rapid.T) { m.operate(t, "retrying", m.ideal.Retry, m.real.Retry) },
		"retry with another payload": func(t *rapid.T) {
			payload := json.RawMessage(fmt.Sprintf(`{"edited":%d}`, rapid.IntRange(1, 9).Draw(t, "edited")))
			with := func(retry func(context.Context, task.ID, json.RawMessage, string) (store.Became, error)) operation {
				return func(ctx context.Context, id task.ID, by string) (store.Became, error) {
					return retry(ctx, id, payload, by)
				}
			}
			m.operate(t, "retrying with another payload", with(m.ideal.RetryWith), with(m.real.RetryWith))
		},
		"rollback": func(t *rapid.T) { m.operate(t, "rolling back", m.ideal.Rollback, m.real.Rollback) },
		"step":     m.step,
	}
}

// operate does to one task what an operator wants.
func (m *machine) operate(t *rapid.T, what string, onModel, onStore operation) {
	if len(m.tasks) == 0 {
		t.Skip("nothing to operate on")
	}
	ctx := m.begin()
	row := rapid.IntRange(0, len(m.tasks)-1).Draw(t, "row")
	if len(m.sent) > 0 && rapid.Bool().Draw(t, "that was settled") {
		row = m.sent[rapid.IntRange(max(len(m.sent)-4, 0), len(m.sent)-1).Draw(t, "settlement")].holds[0].row
	}
	m.everStarted[row] = true
	want, reasonWant := onModel(ctx, m.tasks[row].ideal, "alice")
	got, reason := onStore(ctx, m.tasks[row].real, "alice")
	_, refusedWant := errors.AsType[*store.RefusedError](reasonWant)
	_, refused := errors.AsType[*store.RefusedError](reason)
	require.Equal(m.t, refusedWant, refused, "%s %d: %v, and %v", what, row, reasonWant, reason)
	if errors.Is(reasonWant, store.ErrNoTask) {
		require.ErrorIs(m.t, reason, store.ErrNoTask)
		return
	}
	if !refused {
		require.NoError(m.t, reasonWant)
		require.NoError(m.t, reason)
	}
	require.Equal(m.t, want, got, "%s %d", what, row)
}

// step carries on what was wanted of tasks that ran.
func (m *machine) step(t *rapid.T) {
	ctx := m.begin()
	n := rapid.IntRange(1, 3).Draw(t, "tasks")
	did := func(step func(context.Context, int) (store.Stepped, error), place func(task.ID) int) store.Stepped {
		got, err := step(ctx, n)
		require.NoError(m.t, err)
		at := place(got.Task)
		if at >= 0 {
			m.everStarted[at] = true
		}
		got.Task = task.ID(at)
		return got
	}
	want := did(m.ideal.Step, func(id task.ID) int { return place(m.tasks, onIdeal, id) })
	got := did(m.real.Step, func(id task.ID) int { return place(m.tasks, onReal, id) })
	require.Equal(m.t, want, got, "what was carried on")
}
