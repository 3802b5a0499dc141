package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

// waits asserts that f waits for another's lock, and ends after release.
func waits(t *testing.T, h *harness, release func(), f func() error) error {
	t.Helper()
	// A long statement may name the schema only beyond the part that pg_stat_activity keeps. Its locks name the schema, too.
	const waiting = `SELECT count(*) FROM pg_stat_activity AS s WHERE wait_event_type = 'Lock' AND (query LIKE '%SCHEMA%' OR EXISTS (
		SELECT FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
		WHERE l.pid = s.pid AND c.relnamespace = 'SCHEMA'::regnamespace))`
	require.Zero(t, h.number(t, waiting))
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	for end := time.Now().Add(soon); h.number(t, waiting) == 0; {
		require.True(t, time.Now().Before(end), "it does not wait")
		require.Empty(t, ended, "it does not wait")
	}
	release()
	select {
	case err := <-ended:
		return err
	case <-time.After(soon):
		t.Fatal("it waits on")
		return nil
	}
}

// lockFor begins a transaction that locks the row as a reap or a change does.
func (h *harness) lockFor(t *testing.T, id task.ID, strength string) (tx pgx.Tx) {
	t.Helper()
	tx, err := pgtest.Connect(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), h.q(`SELECT FROM SCHEMA.task WHERE id = $1 FOR `+strength), int64(id))
	require.NoError(t, err)
	return tx
}

// TestBusyIsNotLost has another transaction lock the row, and makes each call that must not wait.
func TestBusyIsNotLost(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	row := a.take(t, 1)[0]
	tx := a.lockFor(t, row.ID, "UPDATE")
	ping := []store.RemotePing{{ID: row.ID, Fence: row.Fence}}
	replies, err := a.TakePings(t.Context(), append(ping, store.RemotePing{ID: row.ID, Fence: row.Fence + 1}))
	require.NoError(t, err)
	require.Equal(t, []store.PingReply{{Answer: store.Busy}, {}}, replies)
	answer, err := a.Complete(t.Context(), row.ID, row.Fence, nil)
	require.NoError(t, err)
	require.Equal(t, store.Busy, answer)
	_, answer, err = a.Adopt(t.Context(), a.session, row.ID, row.Fence, time.Minute)
	require.NoError(t, err)
	require.Equal(t, store.Busy, answer)
	require.NoError(t, tx.Rollback(t.Context()))
	replies, err = a.TakePings(t.Context(), ping)
	require.NoError(t, err)
	require.Equal(t, store.Applied, replies[0].Answer)
}

// TestSQLWaits has each function wait for the transaction that takes the row away, and find that its lease is lost.
func TestSQLWaits(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]string{
		"hold": `SELECT SCHEMA.hold($1, 1)`, "complete": `SELECT SCHEMA.complete($1, 1)`, "ping": `SELECT SCHEMA.ping($1, 1)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := joined(t, newHarness(t))
			row := a.take(t, 1)[0]
			app := pgtest.ConnectTo(t, a.asApp)
			do := func() error {
				_, err := app.Exec(t.Context(), a.q(call), int64(row.ID))
				return err
			}
			tx := a.lockFor(t, row.ID, "UPDATE")
			require.NoError(t, waits(t, a.harness, func() { require.NoError(t, tx.Rollback(t.Context())) }, do))
			if name == "complete" {
				return
			}
			tx = a.lockFor(t, row.ID, "UPDATE")
			_, err := tx.Exec(t.Context(), a.q(`UPDATE SCHEMA.task SET fence = fence + 1, claim = 0`))
			require.NoError(t, err)
			err = waits(t, a.harness, func() { require.NoError(t, tx.Commit(t.Context())) }, do)
			require.ErrorContains(t, err, fmt.Sprintf("task %d is not held with fence 1 any more: stop, and commit nothing", row.ID))
			var e *pgconn.PgError
			require.ErrorAs(t, err, &e)
			require.Equal(t, "LH410", e.Code)
		})
	}
}

// TestCompleteWaitsForOtherHolds: its own is no obstacle, another's is; and how long it waits is the caller's business.
func TestCompleteWaitsForOtherHolds(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	row := a.take(t, 1)[0]
	mine, theirs := a.Begin(t), a.Begin(t)
	require.NoError(t, mine.Hold(t.Context(), row.ID, row.Fence))
	require.NoError(t, theirs.Hold(t.Context(), row.ID, row.Fence))
	impatient := pgtest.ConnectTo(t, a.asApp)
	_, err := impatient.Exec(t.Context(), `SET lock_timeout = '1ms'`)
	require.NoError(t, err)
	_, err = impatient.Exec(t.Context(), a.q(`SELECT SCHEMA.complete($1, 1)`), int64(row.ID))
	require.ErrorContains(t, err, "55P03")
	err = waits(t, a.harness, func() { require.NoError(t, theirs.Rollback(context.Background())) }, func() error {
		return mine.Complete(t.Context(), row.ID, row.Fence, nil)
	})
	require.NoError(t, err)
	require.NoError(t, mine.Commit(t.Context()))
	done, err := a.Completed(t.Context(), []store.Held{{ID: row.ID, Fence: row.Fence}})
	require.NoError(t, err)
	require.Equal(t, []bool{true}, done)
}

// TestCancelWaitsForAClaim: of a claim and a cancellation at once, the second sees what the first has done.
func TestCancelWaitsForAClaim(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	id := a.Insert(t, store.EnqueueRequest{Type: "a"})[0]
	tx := a.lockFor(t, id, "UPDATE")
	_, err := tx.Exec(t.Context(), a.q(`UPDATE SCHEMA.task SET state = 'running', fence = 1, claim = 1, session = $1,
		lease_until = now() + interval '1 hour'`), int64(a.session))
	require.NoError(t, err)
	var said store.Became
	require.NoError(t, waits(t, a.harness, func() { require.NoError(t, tx.Commit(t.Context())) }, func() (err error) {
		said, err = a.Cancel(t.Context(), id, "alice")
		return err
	}))
	require.Equal(t, store.Cancelling, said)

	// And the other way round: the claim passes over what is being cancelled.
	id = a.Insert(t, store.EnqueueRequest{Type: "a"})[0]
	app := a.Begin(t)
	said, err = app.Cancel(t.Context(), id, "alice")
	require.NoError(t, err)
	require.Equal(t, store.Became("cancelled"), said)
	rows, err := a.Claim(t.Context(), store.Claim{Session: a.session, Number: 9, Wants: []store.Want{wantOf(5)}})
	require.NoError(t, err)
	require.Empty(t, rows)
	require.NoError(t, app.Rollback(t.Context()))
	rows, err = a.Claim(t.Context(), store.Claim{Session: a.session, Number: 10, Wants: []store.Want{wantOf(5)}})
	require.NoError(t, err)
	require.Len(t, rows, 1, "a cancellation that was taken back is none")
}

// TestStricterTransactions: a snapshot from before the row was taken away holds nothing.
func TestStricterTransactions(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]string{
		"hold": `SELECT SCHEMA.hold($1, 1)`, "complete": `SELECT SCHEMA.complete($1, 1)`, "ping": `SELECT SCHEMA.ping($1, 1)`,
	} {
		for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			t.Run(name+" "+string(level), func(t *testing.T) {
				t.Parallel()
				a := joined(t, newHarness(t))
				row := a.take(t, 1)[0]
				tx, err := pgtest.ConnectTo(t, a.asApp).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
				require.NoError(t, err)
				_, err = tx.Exec(t.Context(), a.q(`SELECT count(*) FROM SCHEMA.tasks`))
				require.NoError(t, err)
				next := done(row)
				next.Next = task.Transition{State: task.StateRetryPending, Attempt: 1, EverStarted: true}
				require.Equal(t, all(1, store.Applied), a.settle(t, next))
				_, err = tx.Exec(t.Context(), a.q(call), int64(row.ID))
				require.ErrorContains(t, err, "40001", "could not serialize access")
				require.NoError(t, tx.Rollback(t.Context()))
			})
		}
	}
}

// TestNoAgentForDays: applications complete and cancel on a day for which no agent has made a partition.
func TestNoAgentForDays(t *testing.T) {
	t.Parallel()
	const forget = `DO $$ DECLARE p text; BEGIN
		FOR p IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'SCHEMA.task_archive'::regclass LOOP
			EXECUTE 'DROP TABLE ' || p; END LOOP; END $$`
	a := joined(t, newHarness(t))
	row := a.take(t, 1)[0]
	waiting := a.Insert(t, store.EnqueueRequest{Type: "a"})[0]
	a.exec(t, forget)
	app := a.Begin(t)
	require.NoError(t, app.Complete(t.Context(), row.ID, row.Fence, nil))
	require.NoError(t, app.Rollback(t.Context()))
	app = a.Begin(t)
	require.NoError(t, app.Complete(t.Context(), row.ID, row.Fence, nil))
	said, err := app.Cancel(t.Context(), waiting, "alice")
	require.NoError(t, err)
	require.Equal(t, store.Became("cancelled"), said)
	require.NoError(t, app.Commit(t.Context()))
	require.EqualValues(t, 2, a.number(t, `SELECT count(*) FROM SCHEMA.task_archive`))
	a.exec(t, forget)
	waiting = a.Insert(t, store.EnqueueRequest{Type: "a"})[0]
	_, err = a.Cancel(t.Context(), waiting, "alice")
	require.NoError(t, err)
	_, err = a.Maintain(t.Context(), week)
	require.NoError(t, err)
	require.EqualValues(t, 5, a.number(t, `SELECT count(*) FROM pg_inherits WHERE inhparent = 'SCHEMA.task_archive'::regclass`))
}

// TestPoliciesAreReadAsTheyAreWritten has SQL read lengths from the JSON that Go has stored.
func TestPoliciesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := task.Policy{Timeout: 1<<63 - 1, Heartbeat: 1500 * time.Microsecond, Rollback: &task.RollbackPolicy{Timeout: time.Second}}
	body, err := json.Marshal(p)
	require.NoError(t, err)
	length := func(path, name string) (us int64) {
		return h.number(t, `SELECT coalesce((extract(epoch FROM SCHEMA.policy_interval($1::text::jsonb #> $2::text[], $3)) * 1000000)::bigint, -1)`,
			string(body), path, name)
	}
	require.Equal(t, int64(1500), length(`{}`, "heartbeat"))
	require.InDelta(t, p.Timeout.Microseconds(), length(`{}`, "timeout"), 1e9)
	require.Equal(t, int64(-1), length(`{}`, "check"), "there is none")
	require.Equal(t, int64(-1), length(`{}`, "stop"), "none is nothing")
	require.Equal(t, int64(1e6), length(`{rollback}`, "timeout"))
}

// TestApplicationsReadNoTable calls each function on tables that were all but empty when its plan was made: to read them
// was the quickest way then.
func TestApplicationsReadNoTable(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	_, err := h.Maintain(t.Context(), week) // for the partitions
	require.NoError(t, err)
	conn := pgtest.Connect(t)
	calls := []string{
		`SELECT SCHEMA.ping($1, $2)`, `SELECT SCHEMA.hold($1, $2)`, `SELECT SCHEMA.complete($1, $2)`,
		`SELECT SCHEMA.take_pings(ARRAY[$1::bigint], ARRAY[$2::bigint], '{1}', '{a}', '{1}', '{1}')`, `SELECT SCHEMA.take_complete($1, $2, false, NULL)`,
		`SELECT SCHEMA.cancel($1, $2::bigint::text)`,
	}
	call := func(text string, id, fence int64) {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), h.q(text), id, fence)
		if e, refused := errors.AsType[*pgconn.PgError](err); refused {
			require.Contains(t, []string{"LH410", "P0002"}, e.Code, text)
			require.NoError(t, tx.Rollback(t.Context()))
			return
		}
		require.NoError(t, err)
		var read []string
		require.NoError(t, tx.QueryRow(t.Context(), h.q(`SELECT coalesce(array_agg(relname::text), '{}') FROM pg_stat_xact_user_tables
			WHERE schemaname = 'SCHEMA' AND seq_scan > 0 AND relname LIKE 'task%'`)).Scan(&read))
		require.Empty(t, read, "%s reads whole tables", text)
		require.NoError(t, tx.Rollback(t.Context()))
	}
	h.exec(t, `INSERT INTO SCHEMA.task (type) VALUES ('a'); ANALYZE SCHEMA.task; ANALYZE SCHEMA.task_archive`)
	for range 7 { // past the fifth, plans are kept
		for _, text := range calls {
			call(text, 1, 1)
		}
	}
	h.exec(t, fill)
	for _, analysed := range []bool{false, true} {
		if analysed {
			h.exec(t, `ANALYZE SCHEMA.task; ANALYZE SCHEMA.task_archive; ANALYZE SCHEMA.attempt`)
		}
		for range 7 {
			for _, text := range calls {
				call(text, 100050, 1)  // runs
				call(text, 100051, 1)  // waits
				call(text, 1000050, 1) // is finished
				call(text, 100075, 7)  // is stale
			}
		}
	}
}

// TestNotesAreHeapOnly: what a task says costs no index anything either.
func TestNotesAreHeapOnly(t *testing.T) {
	t.Parallel()
	a := joined(t, newFreshHarness(t))
	rows := a.take(t, 10)
	renewals := make([]store.Renewal, len(rows))
	for i, row := range rows {
		renewals[i] = store.Renewal{
			ID: row.ID, Fence: row.Fence, Window: time.Hour, Detach: i%2 == 0,
			Report: store.Report{Progress: json.RawMessage(`0.5`), Message: "half"},
		}
	}
	renewed, err := a.Renew(t.Context(), a.session, renewals)
	require.NoError(t, err)
	require.Equal(t, all(len(rows), store.Applied), renewed)
	require.NoError(t, a.Flush(t.Context()))
	require.EqualValues(t, 10, a.number(t, `SELECT n_tup_hot_upd FROM pg_stat_user_tables
		WHERE relid = 'SCHEMA.task'::regclass`))
}

// TestCancelRequestsNotify: a listener distinguishes requests to cancel from inserts.
func TestCancelRequestsNotify(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	row := a.take(t, 1)[0]
	news := make(chan store.News, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Listen(ctx, func(n store.News) { news <- n }) }()
	next := func() store.News {
		t.Helper()
		select {
		case n := <-news:
			return n
		case <-time.After(soon):
			t.Fatal("no news arrived")
			return 0
		}
	}
	require.Equal(t, store.Due|store.CancelNews|store.AfterNews|store.PauseNews|store.PlaceNews, next(), "what may have been missed")
	for range 3 { // once is enough
		_, err := a.Cancel(t.Context(), row.ID, "alice")
		require.NoError(t, err)
	}
	require.Equal(t, store.CancelNews, next())
	require.NoError(t, a.Idle(t.Context(), a.session, true))
	a.Insert(t, store.EnqueueRequest{Type: "a"})
	require.Equal(t, store.Due, next())
	cancel()
	require.NoError(t, <-ended)
}

// TestTheKeyIsNotGuessed: two stores have two, of 32 bytes that are not all alike.
func TestTheKeyIsNotGuessed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 2 {
		h := newHarness(t)
		key, err := h.Secret(t.Context())
		require.NoError(t, err)
		require.Len(t, key, 32)
		require.False(t, seen[string(key)])
		seen[string(key)] = true
		require.ErrorContains(t, func() error {
			_, err := pgtest.Connect(t).Exec(t.Context(), h.q(`INSERT INTO SCHEMA.secret (key) VALUES ('x')`))
			return err
		}(), "23505", "there is one")
	}
	none := openStore(t, postgres.Options{Schema: pgtest.Schema(t)})
	_, err := none.Secret(t.Context())
	require.ErrorContains(t, err, "42P01")
}
