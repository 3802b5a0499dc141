package postgres_test

import (
	"cmp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/test/storetest"
)

func (h *harness) AddSchedule(t testing.TB, spec store.ScheduleSpec) error {
	t.Helper()
	conn, end := h.connections.connection(t, h.asApp)
	defer end()
	text, values := storetest.InsertSchedule(spec, numbered)
	_, err := conn.Exec(t.Context(), h.q(strings.Replace(text, "INTO ", "INTO SCHEMA.", 1)), values...)
	return err
}

// numbered is the place of an argument.
func numbered(n int) string { return "$" + strconv.Itoa(n) }

func (h *harness) UpsertSchedule(t testing.TB, spec store.ScheduleSpec) error {
	t.Helper()
	conn, end := h.connections.connection(t, h.asApp)
	defer end()
	text, values := storetest.UpsertSchedule(spec, numbered)
	_, err := conn.Exec(t.Context(), h.q(strings.Replace(text, "INTO ", "INTO SCHEMA.", 1)), values...)
	return err
}

func (h *harness) ChangeSchedule(t testing.TB, spec store.ScheduleSpec) error {
	t.Helper()
	conn, end := h.connections.connection(t, h.asApp)
	defer end()
	text, values := storetest.UpdateSchedule(spec, numbered)
	_, err := conn.Exec(t.Context(), h.q(strings.Replace(text, "UPDATE ", "UPDATE SCHEMA.", 1)), values...)
	return err
}

func (h *harness) DeleteSchedule(t testing.TB, name string) error {
	t.Helper()
	conn, end := h.connections.connection(t, h.asApp)
	defer end()
	_, err := conn.Exec(t.Context(), h.q(`SELECT SCHEMA.remove_schedule($1)`), name)
	return err
}

func (h *harness) DeclareSchedule(t testing.TB, spec store.ScheduleSpec, number int64) error {
	t.Helper()
	conn, end := h.connections.connection(t, cmp.Or(h.asAgent, pgtest.URL(t)))
	defer end()
	_, err := conn.Exec(t.Context(), h.q(`INSERT INTO SCHEMA.schedule (name, task, every, source, declared) VALUES ($1, $2, $3, 'hcl', $4)
		ON CONFLICT (name) DO UPDATE SET task = excluded.task, every = excluded.every, declared = excluded.declared`),
		spec.Name, spec.Task, spec.Every, number)
	return err
}

func (h *harness) HaltSchedule(t testing.TB, name, how string) {
	t.Helper()
	conn, end := h.connections.connection(t, pgtest.URL(t))
	defer end()
	_, err := conn.Exec(t.Context(), h.q(`UPDATE SCHEMA.schedule SET `+how+`_at = now(), version = version + 1 WHERE name = $1`), name)
	require.NoError(t, err)
}

func (h *harness) ShownSchedule(t testing.TB, name string) (s storetest.ShownSchedule) {
	t.Helper()
	conn, end := h.connections.connection(t, h.asApp)
	defer end()
	var next, slot, queued *time.Time
	require.NoError(t, conn.QueryRow(t.Context(), h.q(`SELECT missed_slots, next_at, last_slot, coalesce(last_task, 0),
		coalesce(last_by, ''), queued_slot, coalesce(invalid, '') FROM SCHEMA.schedules WHERE name = $1`), name).
		Scan(&s.Missed, &next, &slot, (*int64)(&s.LastTask), &s.LastBy, &queued, &s.Invalid))
	for _, at := range []struct {
		from *time.Time
		to   *time.Time
	}{{next, &s.NextAt}, {slot, &s.LastSlot}, {queued, &s.Queued}} {
		if at.from != nil {
			*at.to = at.from.UTC()
		}
	}
	return s
}
