package postgres_test

import (
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
	text, values := storetest.InsertSchedule(spec, func(n int) string { return "$" + strconv.Itoa(n) })
	_, err := conn.Exec(t.Context(), h.q(strings.Replace(text, "INTO ", "INTO SCHEMA.", 1)), values...)
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
