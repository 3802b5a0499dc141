//go:build linux

package faults

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/history"
)

// kindTick is the type of the rows that schedules insert. No agent declares it: see journalSQL.
const kindTick = "tick"

// addSchedules inserts schedules of each kind, with slots a second apart.
func (w *world) addSchedules(t testing.TB) {
	t.Helper()
	_, err := w.app.Exec(t.Context(), `INSERT INTO leasehold.schedule (name, task, every, missed, catch_up, overlap, jitter) VALUES
		('all', '`+kindTick+`', '1s', 'all', '1m', 'queue', NULL), ('one', '`+kindTick+`', '1s', 'one', NULL, 'skip', NULL),
		('none', '`+kindTick+`', '1s', 'none', NULL, 'queue', NULL), ('spread', '`+kindTick+`', '1s', 'all', '1m', 'skip', '500ms')`)
	require.NoError(t, err)
}

// collectSchedules reads what has fired. Agents have ended.
func (w *world) collectSchedules(t testing.TB, h *history.History) {
	t.Helper()
	query(t, w, `SELECT name, missed_slots FROM leasehold.schedules ORDER BY name`, func(rows pgx.Rows) error {
		var s history.Schedule
		err := rows.Scan(&s.Name, &s.Missed)
		h.Schedules = append(h.Schedules, s)
		return err
	})
	const text = `YYYY-MM-DD"T"HH24:MI:SS"Z"`
	slot := `to_char(slot AT TIME ZONE 'UTC', '` + text + `')`
	if w.o.SQLite {
		slot = "slot"
	}
	query(t, w, `SELECT schedule, `+slot+` FROM fired ORDER BY schedule, slot`, func(rows pgx.Rows) error {
		var name, slot string
		if err := rows.Scan(&name, &slot); err != nil {
			return err
		}
		at, err := time.Parse(time.RFC3339Nano, slot)
		for i := range h.Schedules {
			if s := &h.Schedules[i]; s.Name == name {
				s.Fired = append(s.Fired, at)
			}
		}
		return err
	})
}
