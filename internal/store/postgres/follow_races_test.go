package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

// Each of these tests has two transactions meet that are about one key: one that enqueues a row beside the live one, and one that
// ends that or changes it.

// again is a row that follows the live one.
func again(n string) store.EnqueueRequest {
	return store.EnqueueRequest{Type: "a", Key: "k", OnLive: store.OnLiveAgain, Payload: []byte(`{"n": ` + n + `}`)}
}

func replacing(n string) store.EnqueueRequest {
	q := again(n)
	q.OnLive = store.OnLiveReplace
	return q
}

// application begins a transaction of an application's.
func (h *harness) application(t *testing.T, isolation pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := pgtest.ConnectTo(t, h.asApp).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: isolation})
	require.NoError(t, err)
	return tx
}

// enqueueIn enqueues in a transaction.
func (h *harness) enqueueIn(t *testing.T, tx pgx.Tx, q store.EnqueueRequest) (id task.ID, answer store.Enqueued, err error) {
	t.Helper()
	text, args := h.enqueueResult(t, q)
	err = tx.QueryRow(t.Context(), text, args...).Scan((*int64)(&id), (*string)(&answer))
	return id, answer, err
}

// enqueuing begins a transaction of an application's that has enqueued a row.
func (h *harness) enqueuing(t *testing.T, q store.EnqueueRequest, want store.Enqueued) (tx pgx.Tx, id task.ID) {
	t.Helper()
	tx = h.application(t, pgx.ReadCommitted)
	id, answer, err := h.enqueueIn(t, tx, q)
	require.NoError(t, err)
	require.Equal(t, want, answer)
	return tx, id
}

func commit(t *testing.T, tx pgx.Tx) func() {
	t.Helper()
	return func() { require.NoError(t, tx.Commit(t.Context())) }
}

func rollback(t *testing.T, tx pgx.Tx) func() {
	t.Helper()
	return func() { require.NoError(t, tx.Rollback(t.Context())) }
}

// keyed inserts and claims a row with the key.
func (a *agentOn) keyed(t *testing.T) task.Task {
	t.Helper()
	id := a.Insert(t, store.EnqueueRequest{Type: "a", Key: "k"})[0]
	rows := a.claim(t, 5)
	require.Len(t, rows, 1)
	require.Equal(t, id, rows[0].ID)
	return rows[0]
}

// follows asserts that the follower is a task by now, and the only row of its key.
func (a *agentOn) follows(t *testing.T, id task.ID, payload string) {
	t.Helper()
	require.Zero(t, a.number(t, `SELECT count(*) FROM SCHEMA.follow`))
	rows := a.claim(t, 5)
	require.Len(t, rows, 1)
	require.Equal(t, id, rows[0].ID)
	require.JSONEq(t, payload, string(rows[0].Payload))
	require.Equal(t, []store.Answer{store.Applied}, a.settle(t, done(rows[0])))
	require.Empty(t, a.claim(t, 5))
}

// TestASettlementWhileARowFollows: the live row is busy until the transaction has ended.
func TestASettlementWhileARowFollows(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} { // the short way of a settlement and the long one
		a := joined(t, newHarness(t))
		row := a.keyed(t)
		end := done(row)
		if !first {
			end.Next.State, end.Outcome = task.StateFailed, task.Outcome{Verdict: task.Failed, Error: "it broke"}
		}
		tx, id := a.enqueuing(t, again("2"), store.EnqueuedFollows)
		require.Equal(t, []store.Answer{store.Busy}, a.settle(t, end))
		renewed, err := a.Renew(t.Context(), a.session, []store.Renewal{{ID: row.ID, Fence: row.Fence, Window: time.Hour}})
		require.NoError(t, err)
		require.Equal(t, []store.Answer{store.Applied}, renewed, "its lease is renewed")
		commit(t, tx)()
		require.Equal(t, []store.Answer{store.Applied}, a.settle(t, end))
		a.follows(t, id, `{"n": 2}`)
	}
}

// TestASettlementThatWaitsForAFollower: the settlement's snapshot is older than the follower, which commits while the settlement
// waits for the row.
func TestASettlementThatWaitsForAFollower(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	const waiting = `SELECT count(*) FROM pg_locks AS l JOIN pg_locks AS r USING (pid) WHERE NOT l.granted AND r.relation = 'SCHEMA.task'::regclass`
	met := false
	for try := 0; try < 20 && !met; try++ { // a settlement waits for a moment only, which a busy machine may miss
		a.ForgetKept()
		row := a.keyed(t)
		tx, id := a.enqueuing(t, again("2"), store.EnqueuedFollows)
		ended := make(chan []store.Answer, 1)
		go func() {
			answers, err := a.Settle(t.Context(), a.session, []store.Settlement{done(row)})
			if err != nil {
				answers = []store.Answer{store.Lost}
			}
			ended <- answers
		}()
		for !met && len(ended) == 0 {
			met = a.number(t, waiting) > 0
		}
		commit(t, tx)()
		answers := <-ended
		if answers[0] == store.Busy {
			met, answers = false, a.settle(t, done(row))
		}
		require.Equal(t, []store.Answer{store.Applied}, answers)
		a.follows(t, id, `{"n": 2}`)
	}
	require.True(t, met)
}

// TestACompletionThatWaitsForAFollower: likewise, of an application that completes the live row.
func TestACompletionThatWaitsForAFollower(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	row := a.keyed(t)
	tx, id := a.enqueuing(t, again("2"), store.EnqueuedFollows)
	app := pgtest.ConnectTo(t, a.asApp)
	require.NoError(t, waits(t, a.harness, commit(t, tx), func() error {
		_, err := app.Exec(t.Context(), a.q(`SELECT SCHEMA.complete($1, $2)`), int64(row.ID), int64(row.Fence))
		return err
	}))
	a.follows(t, id, `{"n": 2}`)
}

// TestACompletionThatCannotSeeAFollower: at this isolation level no statement sees what was committed since the first. It fails, and
// the transaction is tried again.
func TestACompletionThatCannotSeeAFollower(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		a := joined(t, newHarness(t))
		row := a.keyed(t)
		complete := func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), a.q(`SELECT SCHEMA.complete($1, $2)`), int64(row.ID), int64(row.Fence))
			return err
		}
		old := a.application(t, level)
		var n int64
		require.NoError(t, old.QueryRow(t.Context(), a.q(`SELECT count(*) FROM SCHEMA.tasks`)).Scan(&n))
		id, answer, err := a.Enqueue(t.Context(), again("2"))
		require.NoError(t, err)
		require.Equal(t, store.EnqueuedFollows, answer)
		require.ErrorContains(t, complete(old), "40001")
		rollback(t, old)()
		fresh := a.application(t, level)
		require.NoError(t, complete(fresh))
		commit(t, fresh)()
		a.follows(t, id, `{"n": 2}`)

		row = a.keyed(t)
		alone := a.application(t, level)
		require.NoError(t, complete(alone), "no row follows it")
		commit(t, alone)()
		require.Zero(t, a.number(t, `SELECT count(*) FROM SCHEMA.follow`))
	}
}

// TestARowThatComesWhileTheLiveOneIsCompleted is a new row, or follows where the completion is rolled back.
func TestARowThatComesWhileTheLiveOneIsCompleted(t *testing.T) {
	t.Parallel()
	for _, q := range []store.EnqueueRequest{again("2"), replacing("2")} {
		for _, completed := range []bool{true, false} {
			a := joined(t, newHarness(t))
			row := a.keyed(t)
			tx := a.application(t, pgx.ReadCommitted)
			_, err := tx.Exec(t.Context(), a.q(`SELECT SCHEMA.complete($1, $2)`), int64(row.ID), int64(row.Fence))
			require.NoError(t, err)
			end, want := rollback(t, tx), store.EnqueuedFollows
			if completed {
				end, want = commit(t, tx), store.EnqueuedInserted
			}
			var id task.ID
			var answer store.Enqueued
			require.NoError(t, waits(t, a.harness, end, func() (err error) {
				id, answer, err = a.Enqueue(t.Context(), q)
				return err
			}))
			require.Equal(t, want, answer)
			if !completed {
				require.Equal(t, []store.Answer{store.Applied}, a.settle(t, done(row)))
			}
			a.follows(t, id, `{"n": 2}`)
		}
	}
}

// TestARowBehindAFollowerThatIsBecomingATask: the completion has inserted the follower, and is not committed.
func TestARowBehindAFollowerThatIsBecomingATask(t *testing.T) {
	t.Parallel()
	for _, q := range []store.EnqueueRequest{again("3"), replacing("3")} {
		a := joined(t, newHarness(t))
		row := a.keyed(t)
		second, _, err := a.Enqueue(t.Context(), again("2"))
		require.NoError(t, err)
		tx := a.application(t, pgx.ReadCommitted)
		_, err = tx.Exec(t.Context(), a.q(`SELECT SCHEMA.complete($1, $2)`), int64(row.ID), int64(row.Fence))
		require.NoError(t, err)
		var third task.ID
		var answer store.Enqueued
		require.NoError(t, waits(t, a.harness, commit(t, tx), func() (err error) {
			third, answer, err = a.Enqueue(t.Context(), q)
			return err
		}))
		if q.OnLive == store.OnLiveReplace {
			require.Equal(t, store.EnqueuedReplaced, answer)
			require.Equal(t, second, third)
		} else {
			require.Equal(t, store.EnqueuedFollows, answer)
			rows := a.claim(t, 5)
			require.Len(t, rows, 1)
			require.Equal(t, second, rows[0].ID)
			require.Equal(t, []store.Answer{store.Applied}, a.settle(t, done(rows[0])))
		}
		a.follows(t, third, `{"n": 3}`)
	}
}

// TestAPlainInsertBesideAFollower: the key is the follower's as soon as the live row has ended.
func TestAPlainInsertBesideAFollower(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	row := a.keyed(t)
	id, _, err := a.Enqueue(t.Context(), again("2"))
	require.NoError(t, err)
	tx := a.application(t, pgx.ReadCommitted)
	_, err = tx.Exec(t.Context(), a.q(`SELECT SCHEMA.complete($1, $2)`), int64(row.ID), int64(row.Fence))
	require.NoError(t, err)
	app := pgtest.ConnectTo(t, a.asApp)
	require.NoError(t, waits(t, a.harness, commit(t, tx), func() error {
		tag, err := app.Exec(t.Context(), a.q(`INSERT INTO SCHEMA.task (type, key) VALUES ('a', 'k') ON CONFLICT DO NOTHING`))
		require.Zero(t, tag.RowsAffected())
		return err
	}))
	a.follows(t, id, `{"n": 2}`)
}
