package sqlite

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// A file has no roles, so an application can write anything into it: one bad row costs no other row anything. Each is
// planted past every CHECK and trigger, before a good one. Both fail, and have a row inserted for that (on_failed).
func TestABadRowHarmsNoOther(t *testing.T) {
	t.Parallel()
	for name, columns := range map[string][2]string{
		"the highest fence":        {"fence", "9223372036854775807"},
		"a negative fence":         {"fence", "-9223372036854775808"},
		"attempts without end":     {"attempt", "9223372036854775807"},
		"negative attempts":        {"attempt", "-9223372036854775808"},
		"deferrals without end":    {"deferrals", "9223372036854775807"},
		"max_attempts of its own":  {"max_attempts", "-5"},
		"a priority of its own":    {"priority", "-1000"},
		"due in the year 0":        {"run_at", "'0000-01-01T00:00:00.000Z'"},
		"due at no time":           {"run_at", "'1'"},
		"due at the end of time":   {"run_at", "'9999-99-99T99:99:99.999Z'"},
		"a deadline that is none":  {"deadline", "'soon'"},
		"created at no time":       {"created_at", "''"},
		"a batch that is not":      {"fence, batch_id", "1, 4711"},
		"an unknown cause":         {"cause, outcome", "char(0), CAST(x'ff' AS TEXT)"},
		"a payload that is broken": {"payload", "'{\"a\":'"},
		"no UTF-8":                 {"payload", "CAST(x'22fffe22' AS TEXT)"},
		"NUL in a key":             {"key", "'a' || char(0) || 'b'"},
		"a huge id":                {"id", "9223372036854775806"},
		"a negative id":            {"id", "-9223372036854775808"},
		"too large":                {"payload", "'\"' || hex(zeroblob(34000000)) || '\"'"},
		"a large rollback payload": {"rollback_payload", "'\"' || hex(zeroblob(34000000)) || '\"'"},
		"a list of labels":         {"labels", "'[]'"},
		"a traceparent of its own": {"traceparent", "hex(zeroblob(1000))"},
		"as deep as JSON may be":   {"payload", "'" + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "'"},
		"two payloads":             {"payload", "'1, 2'"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			conn, err := h.app.Conn(t.Context())
			require.NoError(t, err)
			for _, text := range []string{
				"PRAGMA ignore_check_constraints = ON", "DROP TRIGGER task_bounds",
				fmt.Sprintf("INSERT INTO task (type, %s) VALUES ('a', %s)", columns[0], columns[1]),
			} {
				_, err := conn.ExecContext(t.Context(), text)
				require.NoError(t, err)
			}
			require.NoError(t, conn.Close())
			require.NoError(t, h.exec(t, "INSERT INTO task (id, type, payload) VALUES (4242, 'a', '\"good\"')"))
			p := task.Policy{Timeout: time.Minute, Stop: time.Second, OnFailed: "dead"}
			if name == "a huge id" {
				p.OnFailed = "" // the file takes no row any more, by any way
			}
			session, err := h.Join(t.Context(), store.Agent{
				Name: "n", Presence: time.Minute, Workers: 1,
				Policies: map[task.PolicyHash]store.NamedPolicy{p.Hash("a"): {Type: "a", Policy: p}},
			})
			require.NoError(t, err)
			c := store.Claim{Session: session, Number: 1, Bytes: 1 << 20, Wants: []store.Want{
				{Type: "a", Phase: task.Run, N: 10, Window: time.Minute, Deadline: time.Hour, Policy: p.Hash("a")},
			}}
			_, _, err = h.NextDue(t.Context(), c)
			require.NoError(t, err)
			rows, err := h.Claim(t.Context(), c)
			require.NoError(t, err)
			good := false
			var ends []store.Settlement
			for _, r := range rows {
				good = good || r.ID == 4242
				ends = append(ends, store.Settlement{
					ID: r.ID, Fence: r.Fence, RanFence: r.Fence, Phase: task.Run, Attempt: r.Attempt, Started: -1,
					Outcome: task.Outcome{Verdict: task.Rejected, Error: r.Unfit},
					Next:    task.Transition{State: task.StateFailed, Attempt: r.Attempt, Deferrals: r.Deferrals, OnFailed: p.OnFailed},
				})
				require.Positive(t, r.Fence)
			}
			require.True(t, good, "the good row is claimed")
			answers, err := h.Settle(t.Context(), session, ends)
			require.NoError(t, err)
			for _, a := range answers {
				require.Equal(t, store.Applied, a)
			}
			failed, err := h.List(t.Context(), store.TaskFilter{Type: "a", States: []task.State{task.StateFailed}})
			require.NoError(t, err)
			dead, err := h.List(t.Context(), store.TaskFilter{Type: "dead"})
			require.NoError(t, err)
			if p.OnFailed != "" {
				require.Len(t, dead, len(failed))
			}
			listed, err := h.List(t.Context(), store.TaskFilter{})
			require.NoError(t, err)
			require.Len(t, listed, 2+len(dead))
			for i := range listed {
				_, err = json.Marshal((*ops.Task)(&listed[i]))
				require.NoError(t, err, "and all can be shown")
			}
		})
	}
}

// A claim of one row gets the row that stands behind one that no agent can run.
func TestARowBehindOneThatIsTooLargeIsClaimed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	conn, err := h.app.Conn(t.Context())
	require.NoError(t, err)
	for _, text := range []string{
		"PRAGMA ignore_check_constraints = ON", "DROP TRIGGER task_bounds",
		`INSERT INTO task (type, payload) VALUES ('x', '"' || hex(zeroblob(34000000)) || '"')`,
	} {
		_, err := conn.ExecContext(t.Context(), text)
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close())
	fill(t, h, 1)
	session, err := h.Join(t.Context(), store.Agent{Name: "n", Presence: time.Minute, Workers: 1})
	require.NoError(t, err)
	c := claimOf(session, 1)
	c.Wants[0].N = 1
	rows, err := h.Claim(t.Context(), c)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.JSONEq(t, `{"invoice": 1}`, string(rows[0].Payload))
}

// A row that no agent can run is archived without its documents, and its batch counts it as any that has failed.
func TestARowOfABatchThatIsTooLarge(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	conn, err := h.app.Conn(t.Context())
	require.NoError(t, err)
	const large = `'"' || hex(zeroblob(34000000)) || '"'`
	for _, text := range []string{
		"PRAGMA ignore_check_constraints = ON", "DROP TRIGGER task_bounds",
		"INSERT INTO batch (sealed) VALUES (0)",
		"INSERT INTO task (type, batch_id, attempt, payload) VALUES ('a', 1, 2, " + large + ")",
		"INSERT INTO task (type, batch_id, state, ever_started, cause, rollback_payload) VALUES ('a', 1, 'rollback_pending', 1, 'lost', " + large + ")",
		"UPDATE batch SET rolling_back = 1",
	} {
		_, err := conn.ExecContext(t.Context(), text)
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close())
	session, err := h.Join(t.Context(), store.Agent{Name: "n", Presence: time.Minute, Workers: 1})
	require.NoError(t, err)
	rows, err := h.Claim(t.Context(), store.Claim{Session: session, Number: 1, Bytes: 1 << 20, Wants: []store.Want{
		{Type: "a", Phase: task.Run, N: 10, Window: time.Minute}, {Type: "a", Phase: task.Rollback, N: 10, Window: time.Minute},
	}})
	require.NoError(t, err)
	require.Empty(t, rows)
	b, err := h.GetBatch(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 0, 0, 1, 1, 1}, []int64{b.Total, b.Live, b.RollingBack, b.Failed, b.RollbackFailed, b.Failures})
	listed, err := h.List(t.Context(), store.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, listed, 2)
	for i, state := range []task.State{task.StateRollbackFailed, task.StateFailed} {
		got := listed[i]
		require.Equal(t, []any{state, task.Rejected, 2 * i, task.Fence(1)}, []any{got.State, got.Outcome, got.Attempt, got.Fence})
		require.Contains(t, got.Error, "68000002 bytes")
		require.Empty(t, got.Payload)
		require.Nil(t, got.RollbackPayload)
	}
	require.Equal(t, task.Lost, listed[0].Cause)
	require.True(t, listed[0].EverStarted)
}

// What an application inserts by mistake is refused, with the place and the remedy.
func TestBoundsOfAnInsert(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	insert := func(columns, values string) error {
		return h.exec(t, fmt.Sprintf("INSERT INTO task (type, %s) VALUES ('a', %s)", columns, values))
	}
	for wrong, c := range map[string][2]string{
		"fence must be between 0 and 2^62":       {"fence", "9223372036854775807"},
		"id must be left out":                    {"id", "9223372036854775807"},
		"payload must be 1 MiB at most":          {"payload", "'\"' || hex(zeroblob(600000)) || '\"'"},
		"rollback_payload must be 1 MiB at most": {"rollback_payload", "'\"' || hex(zeroblob(600000)) || '\"'"},
	} {
		require.ErrorContains(t, insert(c[0], c[1]), wrong)
	}
	require.ErrorContains(t, h.exec(t, "INSERT INTO batch (finish_type, finish_payload) VALUES ('a', json_object('a', hex(zeroblob(40000))))"),
		"finish_payload must be 64 KiB at most")
	require.NoError(t, insert("priority", "0"))
	require.NoError(t, insert("payload", "'\"' || hex(zeroblob(500000)) || '\"'"))
	require.NoError(t, h.Migrator().SetMaxPayload(t.Context(), 128<<10))
	require.ErrorContains(t, insert("payload", "'\"' || hex(zeroblob(500000)) || '\"'"), "payload must be 128 KiB at most")
	got, err := h.Migrator().MaxPayload(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 128<<10, got)
	require.ErrorContains(t, h.Migrator().SetMaxPayload(t.Context(), 65<<20), "use 128 KiB to 64 MiB")
	// The row that is larger than the bound is now can be cancelled and retried.
	require.NoError(t, h.exec(t, "INSERT INTO cancel (id) SELECT id FROM task"))
	require.NoError(t, h.exec(t, "INSERT INTO retry (id) SELECT id FROM task_archive"))
}
