package postgres_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/task"
)

// agentOn is a session with a counter for its claims.
type agentOn struct {
	*harness
	session task.Session
	claims  int64
}

func joined(t *testing.T, h *harness) *agentOn {
	t.Helper()
	session, err := h.Join(t.Context(), someAgent())
	require.NoError(t, err)
	return &agentOn{harness: h, session: session}
}

// take inserts n rows and claims them.
func (a *agentOn) take(t *testing.T, n int) []task.Task {
	t.Helper()
	a.Insert(t, slices.Repeat([]store.EnqueueRequest{{Type: "a"}}, n)...)
	a.claims++
	rows, err := a.Claim(t.Context(), store.Claim{Session: a.session, Number: a.claims, Wants: []store.Want{wantOf(n)}})
	require.NoError(t, err)
	require.Len(t, rows, n)
	return rows
}

func (a *agentOn) settle(t *testing.T, rows ...store.Settlement) []store.Answer {
	t.Helper()
	answers, err := a.Settle(t.Context(), a.session, rows)
	require.NoError(t, err)
	return answers
}

func all(n int, a store.Answer) []store.Answer { return slices.Repeat([]store.Answer{a}, n) }

// TestValuesThatPostgresRefuses has results that are JSON to other parsers, in the midst of a batch.
func TestValuesThatPostgresRefuses(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	bad := []string{
		`{"a": "\u0000"}`, `"\ud800"`, `1e999999`, `{"a": `, strings.Repeat("[", 32000) + strings.Repeat("]", 32000),
		"\"\xff\"", "\x00",
	}
	rows := a.take(t, 3*len(bad))
	ends := make([]store.Settlement, len(rows))
	for i, row := range rows {
		ends[i] = done(row)
		ends[i].Outcome.Result = json.RawMessage(`{"ok": true}`)
		ends[i].Outcome.Output = "out\x00put \xff"
		ends[i].Outcome.Error = "err\x00or \xff"
		if i%3 == 1 {
			ends[i].Outcome.Result = json.RawMessage(bad[i/3])
		}
		if i%2 == 1 {
			ends[i].Next = task.Transition{State: task.StateRetryPending, Delay: time.Hour, Attempt: 1}
		}
	}
	require.Equal(t, all(len(rows), store.Applied), a.settle(t, ends...))
	for i, row := range rows {
		info, err := a.Get(t.Context(), row.ID)
		require.NoError(t, err)
		require.Equal(t, ends[i].Next.State, info.State)
		require.Equal(t, "err\uFFFDor \uFFFD", info.Error)
		if i%3 != 1 {
			require.JSONEq(t, `{"ok": true}`, string(info.Result))
			continue
		}
		var kept string
		require.NoError(t, json.Unmarshal(info.Result, &kept), "it is kept as a string: %.80s", info.Result)
		require.Equal(t, strings.ToValidUTF8(strings.ReplaceAll(bad[i/3], "\x00", "\uFFFD"), "\uFFFD"), kept)
	}
	require.Zero(t, a.number(t, `SELECT count(*) FROM SCHEMA.task WHERE state = 'running'`))
}

// TestAnApplicationThatKeepsARow has one row kept for as long as the test lasts.
func TestAnApplicationThatKeepsARow(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	rows := a.take(t, 50)
	release := a.LockRow(t, rows[20].ID)
	ends := make([]store.Settlement, len(rows))
	renewals := make([]store.Renewal, len(rows))
	for i, row := range rows {
		ends[i] = done(row)
		renewals[i] = store.Renewal{ID: row.ID, Fence: row.Fence, Window: time.Hour}
	}
	renewed, err := a.Renew(t.Context(), a.session, renewals)
	require.NoError(t, err)
	require.Equal(t, all(len(rows), store.Applied), renewed, "renewals pass it")
	want := all(len(rows), store.Applied)
	want[20] = store.Busy
	require.Equal(t, want, a.settle(t, ends...), "no other row waits for it")
	require.Equal(t, []store.Answer{store.Busy}, a.settle(t, ends[20]))
	require.EqualValues(t, 1, a.number(t, `SELECT count(*) FROM SCHEMA.task`))
	release()
	require.Equal(t, []store.Answer{store.Applied}, a.settle(t, ends[20]))
}

// TestADayWithoutAPartition settles after the clock has gone where no partition was made, and crashes on the way.
func TestADayWithoutAPartition(t *testing.T) {
	t.Parallel()
	const today = `DO $$ DECLARE p text; BEGIN
		FOR p IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'SCHEMA.task_archive'::regclass LOOP
			EXECUTE 'DROP TABLE ' || p; END LOOP; END $$`
	errCrash := errors.New("crash")
	for _, at := range postgres.Failpoints() {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			a := joined(t, newHarness(t))
			rows := a.take(t, 4)
			ends := []store.Settlement{done(rows[0]), done(rows[1]), done(rows[2]), done(rows[3])}
			ends[1].Next = task.Transition{State: task.StateRetryPending, Delay: time.Hour, Attempt: 1}
			a.exec(t, today)
			hit := false
			a.Fail(func(point string) error {
				if point != at || hit {
					return nil
				}
				hit = true
				return errCrash
			})
			_, err := a.Settle(t.Context(), a.session, ends)
			require.ErrorIs(t, err, errCrash)
			a.Fail(nil)
			require.EqualValues(t, 4, a.number(t, `SELECT count(DISTINCT id) FROM SCHEMA.tasks`))
			require.EqualValues(t, 4, a.number(t, `SELECT count(*) FROM SCHEMA.tasks`))
			again := a.settle(t, ends...)
			require.Equal(t, all(4, again[0]), again)
			require.NotContains(t, []store.Answer{store.Busy, store.Lost}, again[0])
			require.Equal(t, all(4, store.Ended), a.settle(t, ends...))
			require.EqualValues(t, 3, a.number(t, `SELECT count(*) FROM SCHEMA.task_archive`))
		})
	}
}

// TestRenewalsAreHeapOnly has no index learn of them. There are so few rows that their page has room for three
// versions of each, whatever other tests' snapshots keep there.
func TestRenewalsAreHeapOnly(t *testing.T) {
	t.Parallel()
	a := joined(t, newFreshHarness(t))
	rows := a.take(t, 10)
	renewals := make([]store.Renewal, len(rows))
	for i, row := range rows {
		renewals[i] = store.Renewal{ID: row.ID, Fence: row.Fence, Window: time.Hour}
	}
	renewed, err := a.Renew(t.Context(), a.session, renewals)
	require.NoError(t, err)
	require.Equal(t, all(len(rows), store.Applied), renewed)
	require.NoError(t, a.Flush(t.Context()))
	require.EqualValues(t, 10, a.number(t, `SELECT n_tup_hot_upd FROM pg_stat_user_tables
		WHERE relid = 'SCHEMA.task'::regclass`))
	// Not pg_indexes, which looks at the indexes of all schemas, those too that other tests are dropping.
	require.Zero(t, a.number(t, `SELECT count(*) FROM pg_index WHERE indrelid = 'SCHEMA.task'::regclass
		AND pg_get_indexdef(indexrelid) LIKE '%lease_until%'`))
}
