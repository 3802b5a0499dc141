package sqlite

import (
	"database/sql"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

const notHeld = "the task is not held with this fence any more: stop, and commit nothing"

// everything is all that the file holds, but for times at which agents were seen.
func (h *harness) everything(t testing.TB) (all []string) {
	t.Helper()
	for _, table := range []string{"task", "task_archive", "attempt", "wakeup", "batch", "operation", "audit"} {
		columns := ""
		require.NoError(t, h.app.QueryRowContext(t.Context(),
			"SELECT group_concat('quote(' || name || ')', ' || ''|'' || ') FROM pragma_table_info(?)", table).Scan(&columns))
		rows, err := h.app.QueryContext(t.Context(), "SELECT "+columns+" FROM "+table+" ORDER BY 1")
		require.NoError(t, err)
		require.NoError(t, eachRow(rows, func(r *sql.Rows) error {
			var text string
			err := r.Scan(&text)
			all = append(all, table+": "+text)
			return err
		}))
	}
	return all
}

// What an attacker, or a program with a mistake, may insert into the views: it raises, says why, and changes nothing.
func TestTheViewsRefuse(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := beating(nil)
	s := h.session(t, p)
	row := h.held(t, s, p, task.Run, 2, 0)[0]
	_, err := h.Settle(t.Context(), s, nil)
	require.NoError(t, err)
	of := int64(h.batchOf(t, 1))
	before := h.everything(t)
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for _, c := range []struct {
		into    string
		values  []any
		message string
	}{
		{"hold (id, fence)", []any{row.ID, row.Fence + 1}, notHeld},
		{"hold (id, fence)", []any{row.ID, row.Fence - 1}, notHeld},
		{"hold (id, fence)", []any{row.ID, nil}, notHeld},
		{"hold (id, fence)", []any{nil, row.Fence}, notHeld},
		{"hold (id, fence)", []any{row.ID, "1 OR 1"}, notHeld},
		{"hold (id, fence)", []any{row.ID, 1.5}, notHeld},
		{"hold (id, fence)", []any{row.ID, []byte("1")}, notHeld},
		{"hold (id)", []any{row.ID}, notHeld},
		{"complete (id, fence)", []any{row.ID, row.Fence + 1}, notHeld},
		{"complete (id, fence)", []any{row.ID, nil}, notHeld},
		{"complete (id, fence)", []any{99, 1}, notHeld},
		{"complete (id, fence, result)", []any{row.ID, row.Fence, "{"}, "result must be JSON"},
		{"complete (id, fence, result)", []any{row.ID, row.Fence, ""}, "result must be JSON"},
		{"complete (id, fence, result)", []any{row.ID, row.Fence, "{a: 1}"}, "result must be JSON"},
		{"complete (id, fence, result)", []any{row.ID, row.Fence, deep}, "result must be JSON"},
		{"complete (id, fence, result)", []any{row.ID, row.Fence, `"` + strings.Repeat("x", task.MaxResult-1) + `"`},
			"result must be 64 KiB at most"},
		{"ping (id, fence)", []any{row.ID, row.Fence + 1}, notHeld},
		{"ping (id, fence)", []any{row.ID, nil}, notHeld},
		{"ping (id, fence, checkpoint)", []any{row.ID, row.Fence, "page 40"}, "checkpoint must be JSON"},
		{"ping (id, fence, checkpoint)", []any{row.ID, row.Fence, deep}, "checkpoint must be JSON"},
		{"ping (id, fence, checkpoint)", []any{row.ID, row.Fence, `"` + strings.Repeat("x", store.MaxCheckpoint-1) + `"`},
			"checkpoint must be 64 KiB at most"},
		{"ping (id, fence, progress)", []any{row.ID, row.Fence, strings.Repeat("x", store.MaxProgress-1)},
			"progress must be 1 KiB at most"},
		{"ping (id, fence, progress)", []any{row.ID, row.Fence, strings.Repeat("\x01", store.MaxProgress/2)},
			"progress must be 1 KiB at most"},
		{"ping (id, fence, next_within_s)", []any{row.ID, row.Fence, -0.001}, "next_within_s must be positive"},
		{"ping (id, fence, next_within_s)", []any{row.ID, row.Fence, 0}, "next_within_s must be positive"},
		{"ping (id, fence, next_within_s)", []any{row.ID, row.Fence, "soon"}, "next_within_s must be positive"},
		{"cancel (id)", []any{99}, "there is no task with this id"},
		{"cancel (id)", []any{nil}, "there is no task with this id"},
		{"cancel (id)", []any{"all"}, "there is no task with this id"},
		{"cancel (id, by)", []any{row.ID, strings.Repeat("ü", 257)}, "by must be 512 bytes at most"},
		{"retry (id)", []any{99}, "there is no task with this id"},
		{"retry (id)", []any{nil}, "there is no task with this id"},
		{"retry (id, by)", []any{row.ID, strings.Repeat("ü", 257)}, "by must be 512 bytes at most"},
		{"rollback (id)", []any{99}, "there is no task with this id"},
		{"rollback (id)", []any{"all"}, "there is no task with this id"},
		{"rollback (id, by)", []any{row.ID, strings.Repeat("ü", 257)}, "by must be 512 bytes at most"},
		{"seal_batch (id)", []any{99}, "there is no batch with this id"},
		{"seal_batch (id)", []any{nil}, "there is no batch with this id"},
		{"cancel_batch (id)", []any{99}, "there is no batch with this id"},
		{"cancel_batch (id, by)", []any{of, strings.Repeat("ü", 257)}, "by must be 512 bytes at most"},
		{"retry_batch (id)", []any{"all"}, "there is no batch with this id"},
		{"retry_batch (id, by)", []any{of, strings.Repeat("ü", 257)}, "by must be 512 bytes at most"},
		{"rollback_batch (id)", []any{99}, "there is no batch with this id"},
		{"rollback_batch (id, by)", []any{of, strings.Repeat("ü", 257)}, "by must be 512 bytes at most"},
		{"task (type, batch_id)", []any{"x", 99}, "there is no batch with this batch_id"},
		{"enqueue (type, batch_id)", []any{"x", 99}, "there is no batch with this batch_id"},
		{"task (type, rollback_payload)", []any{"x", "{a: 1}"}, "rollback_payload must be JSON"},
		{"enqueue (type, rollback_payload)", []any{"x", ""}, "rollback_payload must be JSON"},
		{"batch (on_failure)", []any{"stop"}, "on_failure must be continue, cancel or rollback"},
		{"batch (finish_type)", []any{""}, "finish_type must not be empty: leave it out instead"},
		{"batch (finish_payload)", []any{"[1]"}, "finish_payload must be a JSON object"},
		{"batch (finish_payload)", []any{"{"}, "finish_payload must be a JSON object"},
		{"batch (labels)", []any{`{"a": 1}`}, "labels must be a JSON object of strings"},
		{"batch (labels)", []any{`["a"]`}, "labels must be a JSON object of strings"},
		{"batch (labels)", []any{`{"a": "` + strings.Repeat("x", 4096) + `"}`}, "labels must be 4 KiB at most"},
		{"batch (name)", []any{strings.Repeat("ü", 128)}, "name must be 255 bytes at most"},
		{"batch (sealed)", []any{2}, "sealed must be true or false"},
		{"batch (created_by)", []any{strings.Repeat("ü", 257)}, "created_by must be 512 bytes at most"},
	} {
		err := h.exec(t, "INSERT INTO "+c.into+" VALUES (?"+strings.Repeat(", ?", len(c.values)-1)+")", numbers(c.values)...)
		require.ErrorContains(t, err, c.message, "%s %.80v", c.into, c.values)
		require.Equal(t, c.message, refused(err).Text)
		require.Equal(t, before, h.everything(t), "%s %.80v", c.into, c.values)
	}
	// Of many rows at once, all or none.
	require.Error(t, h.exec(t, "INSERT INTO cancel (id) VALUES (?), (99)", int64(row.ID)))
	require.Error(t, h.exec(t, "INSERT INTO ping (id, fence, message) VALUES (?1, ?2, 'a'), (?1, ?2 + 1, 'b')", int64(row.ID), int64(row.Fence)))
	require.Error(t, h.exec(t, "INSERT INTO complete (id, fence) VALUES (?1, ?2), (?1, ?2 + 1)", int64(row.ID), int64(row.Fence)))
	for _, view := range []string{
		"hold", "complete", "ping", "cancel", "lease_terms", "retry", "rollback", "seal_batch", "cancel_batch", "retry_batch",
		"rollback_batch", "batches", "cancel_waiting", "archive", "revive", "reopen_batch", "rollback_policy",
	} {
		require.ErrorContains(t, h.exec(t, "DELETE FROM "+view), "view")
		require.ErrorContains(t, h.exec(t, "UPDATE "+view+" SET id = 1"), "view")
	}
	require.Equal(t, before, h.everything(t))
}

// numbers turns numbers with names of their own into ones that a driver knows.
func numbers(values []any) []any {
	for i, v := range values {
		switch v := v.(type) {
		case task.ID:
			values[i] = int64(v)
		case task.Fence:
			values[i] = int64(v)
		}
	}
	return values
}

// What looks dangerous and is not: it is taken for what it is, and within the bounds.
func TestTheViewsTake(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := beating(nil)
	row := h.held(t, h.session(t, p), p, task.Run, 1, 0)[0]
	longest := row.ClaimedAt.Add(p.MaxHeartbeat + p.Stop)
	for _, within := range []any{math.Inf(1), 1e300, "9e999", "600000000", 1e-9, nil, []byte("7")} {
		require.NoError(t, h.exec(t, "INSERT INTO ping (id, fence, next_within_s) VALUES (?, ?, ?)", int64(row.ID), int64(row.Fence), within))
		require.False(t, h.marks(t, row.ID).until.After(longest.Add(time.Minute)), "%v", within)
	}
	for _, text := range []string{"'; DROP TABLE task; --", "a\x00b", "\xff\xfe", strings.Repeat("ü", store.MaxMessage/2)} {
		require.NoError(t, h.exec(t, "INSERT INTO ping (id, fence, message) VALUES (?, ?, ?)", int64(row.ID), int64(row.Fence), text))
		require.Equal(t, text, h.marks(t, row.ID).message)
	}
	for _, text := range []string{
		strings.Repeat("x", store.MaxMessage+1), strings.Repeat("ü", store.MaxMessage), "x" + strings.Repeat("€", store.MaxMessage),
		strings.Repeat("😀", 1<<20), strings.Repeat("\xff", store.MaxMessage+1),
	} {
		require.NoError(t, h.exec(t, "INSERT INTO ping (id, fence, message) VALUES (?, ?, ?)", int64(row.ID), int64(row.Fence), text))
		cut := h.marks(t, row.ID).message
		require.True(t, strings.HasPrefix(text, cut), "%.20q", text)
		require.LessOrEqual(t, len(cut), store.MaxMessage)
		require.Greater(t, len(cut), store.MaxMessage-8)
		require.Equal(t, utf8.ValidString(text), utf8.ValidString(cut))
	}
	spaced := strings.Repeat(" ", 1<<20) + `{ "page" : 40 }`
	require.NoError(t, h.exec(t, "INSERT INTO ping (id, fence, checkpoint) VALUES (?, ?, ?)", int64(row.ID), int64(row.Fence), spaced))
	require.Equal(t, `{"page":40}`, h.marks(t, row.ID).checkpoint)
	require.NoError(t, h.exec(t, "INSERT INTO hold (id, fence) VALUES (?, ?)", "1", "1"), "numbers as text are numbers")
}

// A fence that has been completed completes again, and nothing else does; a late settlement finds itself done.
func TestCompleteIsForOneAttempt(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := beating(nil)
	s := h.session(t, p)
	row := h.held(t, s, p, task.Run, 1, 0)[0]
	complete := func(f task.Fence, result any) error {
		return h.exec(t, "INSERT INTO complete (id, fence, result) VALUES (?, ?, ?)", int64(row.ID), int64(f), result)
	}
	require.NoError(t, complete(row.Fence, `{"by": "first"}`))
	done := h.everything(t)
	require.NoError(t, complete(row.Fence, `{"by": "a repeat"}`))
	require.ErrorContains(t, complete(row.Fence+1, nil), notHeld)
	require.ErrorContains(t, complete(row.Fence-1, nil), notHeld)
	require.ErrorContains(t, h.exec(t, "INSERT INTO hold (id, fence) VALUES (?, ?)", int64(row.ID), int64(row.Fence)), notHeld)
	require.NoError(t, h.exec(t, "INSERT INTO cancel (id) VALUES (?)", int64(row.ID)), "and it is too late to cancel it")
	require.Equal(t, done, h.everything(t))
	info, err := h.Get(t.Context(), row.ID)
	require.NoError(t, err)
	require.Equal(t, task.StateSucceeded, info.State)
	require.JSONEq(t, `{"by":"first"}`, string(info.Result))
	require.True(t, info.EverStarted)
	require.Equal(t, row.Fence+1, info.Fence)
	require.Equal(t, s, info.Session)
	require.Empty(t, info.History, "done at first try")
}

// In the shell and in most drivers a statement that raises leaves the transaction open. A caller that rolls it back, as the
// message says, has changed nothing.
func TestARefusedHoldLeavesTheTransactionToRollBack(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.NoError(t, h.exec(t, "CREATE TABLE invoice (id INTEGER PRIMARY KEY)"))
	tx, err := h.app.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "INSERT INTO invoice VALUES (7)")
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "INSERT INTO hold (id, fence) VALUES (4211, 9)")
	require.ErrorContains(t, err, notHeld)
	require.NoError(t, tx.Rollback())
	require.Equal(t, 0, h.count(t, "SELECT count(*) FROM invoice"))
}

// Applications bring a SQLite of their own, 3.37 or newer, and read the whole schema or nothing: what came later must not
// stand in it.
func TestTheSchemaKeepsToOldSQLite(t *testing.T) {
	t.Parallel()
	tooNew := []string{
		`->`, `\b(unixepoch|timediff|octet_length|concat|concat_ws|string_agg|unhex|if|jsonb\w*|json_error_position)\s*\(`,
		`'subsec'`, `\b(RIGHT|FULL)\s+(OUTER\s+)?JOIN\b`, `\bIS\s+(NOT\s+)?DISTINCT\b`, `\bRETURNING\b`,
		`\bRAISE\s*\(\s*\w+\s*,\s*[^'\s]`, `\bRAISE\s*\(\s*\w+\s*,\s*'[^']*'\s*[^)\s]`, // a message is a constant before 3.47
	}
	comment := regexp.MustCompile(`--.*`)
	f := readSchema(files)
	for _, st := range append(f.from(0), f.steps...) {
		for _, script := range []string{st.up, st.down} {
			for _, construct := range tooNew {
				found := regexp.MustCompile(`(?i)` + construct).FindString(comment.ReplaceAllString(script, ""))
				require.Empty(t, found, st.name)
			}
		}
	}
}
