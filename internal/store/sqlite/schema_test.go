package sqlite

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func TestPlainInsertNeedsOnlyATypeAndAPayload(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var id task.ID
	before := time.Now().Truncate(time.Millisecond)
	err := h.app.QueryRowContext(t.Context(), `INSERT INTO task (type, payload) VALUES ('a', '{"n": 1}') RETURNING id`).Scan(&id)
	require.NoError(t, err)
	info, err := h.Get(t.Context(), id)
	require.NoError(t, err)
	require.JSONEq(t, `{"n": 1}`, string(info.Payload))
	require.Equal(t, task.StatePending, info.State)
	for _, at := range []time.Time{info.RunAt, info.CreatedAt} {
		require.WithinRange(t, at, before, time.Now())
	}
}

func TestBrokenConstraintsSpeak(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	long := `{"a": "` + strings.Repeat("x", 4096) + `"}`
	const badTime = "run_at must be UTC text like 2026-11-20T08:00:00.123Z"
	for _, c := range []struct{ column, value, message string }{
		{"type", "", "type must not be empty"},
		{"priority", "11", "priority must be between -10 and 10"},
		{"priority", "-11", "priority must be between -10 and 10"},
		{"payload", "", "payload must be JSON"},
		{"payload", "{a: 1}", "payload must be JSON"},
		{"labels", `["a"]`, "labels must be a JSON object of strings"},
		{"labels", `{"a": 1}`, "labels must be a JSON object of strings"},
		{"labels", `{"a": {"b": "c"}}`, "labels must be a JSON object of strings"},
		{"labels", `{"a"`, "labels must be a JSON object of strings"},
		{"labels", long, "labels must be 4 KiB at most"},
		{"key", "", "key must not be empty"},
		{"key", strings.Repeat("ü", 513), "key must be 1 KiB at most"},
		{"type", strings.Repeat("ü", 128), "type must be 255 bytes at most"},
		{"region", strings.Repeat("ü", 128), "region must be 255 bytes at most"},
		{"traceparent", strings.Repeat("ü", 257), "traceparent must be 512 bytes at most"},
		{"created_by", strings.Repeat("ü", 257), "created_by must be 512 bytes at most"},
		{"max_attempts", "0", "max_attempts must be between 1 and 1000"},
		{"max_attempts", "1001", "max_attempts must be between 1 and 1000"},
		{"state", "succeeded", "state must be that of a live task"},
		{"run_at", "now", badTime},
		{"run_at", "1795000000", badTime},
		{"run_at", "2026-11-20", badTime},
		{"run_at", "2026-11-20 08:00:00", badTime},
		{"run_at", "2026-11-20T08:00:00Z", badTime},
		{"run_at", "2026-11-20T08:00:00.123456Z", badTime},
		{"run_at", "2026-11-20T08:00:00.123+08:00", badTime},
		{"run_at", "2026-02-30T08:00:00.123Z", badTime},
		{"run_at", "2026-11-20T24:00:00.000Z", badTime},
		{"run_at", "2026-11-20T08:60:00.000Z", badTime},
		{"created_at", "yesterday", "created_at must be UTC text like 2026-11-20T08:00:00.123Z"},
	} {
		for _, table := range []string{"task", "enqueue"} {
			if table == "enqueue" && (c.column == "state" || c.column == "created_at") {
				continue // no column of the view
			}
			columns, values := "type, "+c.column, "'a', ?"
			if c.column == "type" {
				columns, values = "type", "?"
			}
			err := h.exec(t, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, columns, values), c.value)
			require.ErrorContains(t, err, c.message, "%s %s = %.40s", table, c.column, c.value)
			require.Contains(t, refused(err).Text, c.message)
			require.NotRegexp(t, `constraint|\(\d+\)`, refused(err).Text)
		}
	}
	require.ErrorContains(t, h.exec(t, "INSERT INTO task (type, payload) VALUES ('a', x'7b7d')"), "BLOB", "text, not bytes")
	require.Equal(t, 0, h.count(t, "SELECT count(*) FROM task"))
}

func TestEveryMillisecondIsATime(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	tx, err := h.app.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	insert, err := tx.PrepareContext(t.Context(), "INSERT INTO task (type, run_at) VALUES ('a', ?)")
	require.NoError(t, err)
	defer func() { require.NoError(t, insert.Close()) }()
	for ms := range 1000 {
		at := day.Add(time.Duration(ms)*time.Millisecond + time.Duration(ms)*time.Minute)
		_, err := insert.ExecContext(t.Context(), stamp(at))
		require.NoError(t, err)
		back, err := parseTime(stamp(at))
		require.NoError(t, err)
		require.Equal(t, at, back)
	}
}

func TestSQLAddsDurationsAsGoDoes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := time.Date(2026, 11, 20, 8, 0, 0, 123e6, time.UTC)
	for _, d := range []time.Duration{
		time.Millisecond, 999 * time.Millisecond, time.Second, 1001 * time.Millisecond, 36*time.Hour + 7*time.Millisecond,
		365 * 24 * time.Hour,
	} {
		var got string
		err := h.app.QueryRowContext(t.Context(), "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', ?, ?)", stamp(at), modifier(d)).Scan(&got)
		require.NoError(t, err)
		require.Equal(t, stamp(at.Add(d)), got)
	}
}

func TestEnqueueViewFillsInDefaults(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.NoError(t, h.exec(t, "INSERT INTO enqueue (type, key, priority, payload, run_at) VALUES ('a', 'k', ?1, ?1, ?1)", nil))
	require.NoError(t, h.exec(t, "INSERT INTO enqueue (type, key, payload) VALUES ('a', 'k', '[1]')"), "nothing to do")
	var payload string
	const read = "SELECT payload FROM enqueue WHERE type = 'a' AND key = 'k'"
	require.NoError(t, h.app.QueryRowContext(t.Context(), read).Scan(&payload))
	require.Equal(t, "{}", payload, "that of the first")
}

func TestIDsAreNeverUsedAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	session, err := h.Join(t.Context(), store.Agent{Name: "a", Presence: time.Hour})
	require.NoError(t, err)
	first := h.Insert(t, store.EnqueueRequest{Type: "x"})[0]
	tasks, err := h.Claim(t.Context(), claimOf(session, 1))
	require.NoError(t, err)
	_, err = h.Settle(t.Context(), session, []store.Settlement{succeeded(tasks[0])})
	require.NoError(t, err)

	err = h.exec(t, "INSERT INTO task (id, type) VALUES (?, 'x')", int64(first))
	require.ErrorContains(t, err, "id belongs to a finished task")

	h.Advance(t, time.Hour)
	removed, err := h.Maintain(t.Context(), time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, 1, removed)
	require.Greater(t, h.Insert(t, store.EnqueueRequest{Type: "x"})[0], first)
}

func TestTheTriggersRunForEachRow(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	err := h.exec(t, `INSERT INTO task (type, labels) VALUES ('a', '{"a": "b"}'), ('a', NULL), ('a', '{"a": true}')`)
	require.ErrorContains(t, err, "labels must be a JSON object of strings")
	require.Equal(t, 0, h.count(t, "SELECT count(*) FROM task"), "all or none")
}

// claimOf wants up to a thousand rows of type x.
func claimOf(session task.Session, number int64) store.Claim {
	return store.Claim{Session: session, Number: number, Wants: []store.Want{
		{Type: "x", Phase: task.Run, N: 1000, Window: time.Minute},
	}}
}

// count reads a number as an application.
func (h *harness) count(t testing.TB, text string, args ...any) int {
	t.Helper()
	return countOn(t, h.app, text, args...)
}

func countOn(t testing.TB, db *sql.DB, text string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), text, args...).Scan(&n))
	return n
}
