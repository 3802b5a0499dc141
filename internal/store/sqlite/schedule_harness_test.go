package sqlite

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
)

func (h *harness) AddSchedule(t testing.TB, spec store.ScheduleSpec) error {
	t.Helper()
	text, values := storetest.InsertSchedule(spec, unnumbered)
	return h.declare(t, text, values)
}

// unnumbered is the place of an argument.
func unnumbered(int) string { return "?" }

// declare executes a statement that takes long to compile.
func (h *harness) declare(t testing.TB, text string, values []any) error {
	t.Helper()
	known, ok := h.declaring.Load(text)
	if !ok {
		s, err := h.app.PrepareContext(t.Context(), text)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		known, _ = h.declaring.LoadOrStore(text, s)
	}
	_, err := known.(*sql.Stmt).ExecContext(t.Context(), values...)
	return err
}

func (h *harness) UpsertSchedule(t testing.TB, spec store.ScheduleSpec) error {
	t.Helper()
	text, values := storetest.UpsertSchedule(spec, unnumbered)
	return h.declare(t, text, values)
}

func (h *harness) ChangeSchedule(t testing.TB, spec store.ScheduleSpec) error {
	t.Helper()
	text, values := storetest.UpdateSchedule(spec, unnumbered)
	return h.declare(t, text, values)
}

func (h *harness) DeleteSchedule(t testing.TB, name string) error {
	t.Helper()
	return h.exec(t, `INSERT INTO remove_schedule (name) VALUES (?)`, name)
}

func (h *harness) DeclareSchedule(t testing.TB, spec store.ScheduleSpec, number int64) error {
	t.Helper()
	return h.exec(t, `INSERT INTO schedule (name, task, every, source, declared) VALUES (?, ?, ?, 'hcl', ?)
		ON CONFLICT (name) DO UPDATE SET task = excluded.task, every = excluded.every, declared = excluded.declared`,
		spec.Name, spec.Task, spec.Every, number)
}

func (h *harness) HaltSchedule(t testing.TB, name, how string) {
	t.Helper()
	require.NoError(t, h.exec(t, `UPDATE schedule SET `+how+`_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), version = version + 1
		WHERE name = ?`, name))
}

func (h *harness) ShownSchedule(t testing.TB, name string) (s storetest.ShownSchedule) {
	t.Helper()
	require.NoError(t, h.app.QueryRowContext(t.Context(), `SELECT missed_slots, next_at, last_slot, last_task, last_by, queued_slot,
		invalid FROM schedules WHERE name = ?`, name).Scan(&s.Missed, timeOf{&s.NextAt}, timeOf{&s.LastSlot},
		numberOf[task.ID]{&s.LastTask}, textOf[string]{&s.LastBy}, timeOf{&s.Queued}, textOf[string]{&s.Invalid}))
	return s
}
