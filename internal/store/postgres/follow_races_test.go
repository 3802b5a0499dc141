package postgres_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strconv"
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

// TestACancelThatWaitsForAFollower: of the live row, which waits.
func TestACancelThatWaitsForAFollower(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	live := a.Insert(t, store.EnqueueRequest{Type: "a", Key: "k", In: time.Hour})[0]
	tx, id := a.enqueuing(t, again("2"), store.EnqueuedFollows)
	require.NoError(t, waits(t, a.harness, commit(t, tx), func() error {
		became, err := a.Cancel(t.Context(), live, "")
		require.Equal(t, store.Became(task.StateCancelled), became)
		return err
	}))
	a.follows(t, id, `{"n": 2}`)
}

// TestAStepOfABatchWhileARowFollows leaves out the row, and cancels it later.
func TestAStepOfABatchWhileARowFollows(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	p := a.Produce(t)
	batch, err := p.CreateBatch(t.Context(), store.BatchRequest{})
	require.NoError(t, err)
	_, err = p.Insert(t.Context(), store.EnqueueRequest{Type: "a", Key: "k", Batch: batch})
	require.NoError(t, err)
	require.NoError(t, p.Commit(t.Context()))
	tx, id := a.enqueuing(t, again("2"), store.EnqueuedFollows)
	_, err = a.CancelBatch(t.Context(), batch, "")
	require.NoError(t, err)
	a.carryOut(t)
	require.Zero(t, a.inState(t, batch, store.BatchPending).Cancelled)
	commit(t, tx)()
	a.carryOut(t)
	require.EqualValues(t, 1, a.inState(t, batch, store.BatchRunning).Cancelled)
	a.follows(t, id, `{"n": 2}`)
}

// TestASweepWhileARowFollows leaves the dead row for later.
func TestASweepWhileARowFollows(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	gone, a := joined(t, h), joined(t, h)
	row := gone.keyed(t)
	require.NoError(t, gone.Leave(t.Context(), gone.session))
	tx, id := a.enqueuing(t, again("2"), store.EnqueuedFollows)
	sweep := func() []store.Reaped {
		dead, err := a.Sweep(t.Context(), a.session, 10, time.Minute, func() store.View { return store.View{Now: h.Now(), Calm: time.Hour} })
		require.NoError(t, err)
		return dead
	}
	require.Empty(t, sweep())
	commit(t, tx)()
	dead := sweep()
	require.Len(t, dead, 1)
	end := done(dead[0].Task)
	end.RanFence = row.Fence
	end.Next.State, end.Outcome = task.StateFailed, task.Outcome{Verdict: task.Lost}
	require.Equal(t, []store.Answer{store.Applied}, a.settle(t, end))
	a.follows(t, id, `{"n": 2}`)
}

// TestAFollowerIsCancelledWhileTheLiveRowEnds: a settlement leaves out the row rather than wait for an application.
func TestAFollowerIsCancelledWhileTheLiveRowEnds(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{true, false} {
		a := joined(t, newHarness(t))
		row := a.keyed(t)
		id, _, err := a.Enqueue(t.Context(), again("2"))
		require.NoError(t, err)
		tx := a.application(t, pgx.ReadCommitted)
		_, err = tx.Exec(t.Context(), a.q(`SELECT SCHEMA.cancel($1)`), int64(id))
		require.NoError(t, err)
		require.Equal(t, []store.Answer{store.Busy}, a.settle(t, done(row)))
		if !cancelled {
			rollback(t, tx)()
			require.Equal(t, []store.Answer{store.Applied}, a.settle(t, done(row)))
			a.follows(t, id, `{"n": 2}`)
			continue
		}
		commit(t, tx)()
		require.Equal(t, []store.Answer{store.Applied}, a.settle(t, done(row)))
		require.Empty(t, a.claim(t, 5))
		info, err := a.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, task.StateCancelled, info.State)
	}
}

// TestACancelOfAFollowerThatIsBecomingATask: it waits for the completion, and cancels the task.
func TestACancelOfAFollowerThatIsBecomingATask(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*agentOn, task.ID) (store.Became, error){
		"cancel":   func(a *agentOn, id task.ID) (store.Became, error) { return a.Cancel(t.Context(), id, "") },
		"rollback": func(a *agentOn, id task.ID) (store.Became, error) { return a.Rollback(t.Context(), id, "") },
	} {
		a := joined(t, newHarness(t))
		a.exec(t, `INSERT INTO SCHEMA.policy (hash, type, body) VALUES (99, 'a', '{"rollback": {}}')`)
		row := a.keyed(t)
		id, _, err := a.Enqueue(t.Context(), again("2"))
		require.NoError(t, err)
		tx := a.application(t, pgx.ReadCommitted)
		_, err = tx.Exec(t.Context(), a.q(`SELECT SCHEMA.complete($1, $2)`), int64(row.ID), int64(row.Fence))
		require.NoError(t, err)
		require.NoError(t, waits(t, a.harness, commit(t, tx), func() error {
			became, err := call(a, id)
			require.Equal(t, store.Became(task.StateCancelled), became, name)
			return err
		}))
		require.Empty(t, a.claim(t, 5))
		require.Zero(t, a.number(t, `SELECT count(*) FROM SCHEMA.task`))
	}
}

// TestTwoFollowersAtOnce: the second waits for the first, and takes its place.
func TestTwoFollowersAtOnce(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		a := joined(t, newHarness(t))
		row := a.keyed(t)
		tx, id := a.enqueuing(t, again("2"), store.EnqueuedFollows)
		end := rollback(t, tx)
		if first {
			end = commit(t, tx)
		}
		var second task.ID
		require.NoError(t, waits(t, a.harness, end, func() (err error) {
			var answer store.Enqueued
			second, answer, err = a.Enqueue(t.Context(), again("3"))
			require.Equal(t, store.EnqueuedFollows, answer)
			return err
		}))
		require.Equal(t, first, id == second)
		require.Equal(t, []store.Answer{store.Applied}, a.settle(t, done(row)))
		a.follows(t, second, `{"n": 3}`)
	}
}

// TestAClaimBesideAReplacement: a claim skips a row that is being replaced, and a replacement waits for a claim, and then follows.
func TestAClaimBesideAReplacement(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	id := a.Insert(t, store.EnqueueRequest{Type: "a", Key: "k"})[0]
	tx, replaced := a.enqueuing(t, replacing("2"), store.EnqueuedReplaced)
	require.Equal(t, id, replaced)
	require.Empty(t, a.claim(t, 5))
	commit(t, tx)()
	a.follows(t, id, `{"n": 2}`)

	id = a.Insert(t, store.EnqueueRequest{Type: "a", Key: "k"})[0]
	claiming, err := pgtest.Connect(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = claiming.Exec(t.Context(), a.q(`UPDATE SCHEMA.task SET state = 'running', session = $1, claim = 77, fence = 1, attempt = 1,
		policy = 1, claimed_at = now(), lease_until = now() + '1 hour' WHERE id = $2`), int64(a.session), int64(id))
	require.NoError(t, err)
	var follower task.ID
	require.NoError(t, waits(t, a.harness, commit(t, claiming), func() (err error) {
		var answer store.Enqueued
		follower, answer, err = a.Enqueue(t.Context(), replacing("2"))
		require.Equal(t, store.EnqueuedFollows, answer)
		return err
	}))
	rows, err := a.Claimed(t.Context(), a.session, 77)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.JSONEq(t, `{}`, string(rows[0].Payload))
	require.Equal(t, []store.Answer{store.Applied}, a.settle(t, done(rows[0])))
	a.follows(t, follower, `{"n": 2}`)
}

// TestARevivalBesideAFollower: the key is the live row's, then the follower's, with no moment in between.
func TestARevivalBesideAFollower(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	old := a.keyed(t)
	end := done(old)
	end.Next.State, end.Outcome = task.StateFailed, task.Outcome{Verdict: task.Failed}
	require.Equal(t, []store.Answer{store.Applied}, a.settle(t, end))
	row := a.keyed(t)
	id, _, err := a.Enqueue(t.Context(), again("2"))
	require.NoError(t, err)
	tx := a.application(t, pgx.ReadCommitted)
	_, err = tx.Exec(t.Context(), a.q(`SELECT SCHEMA.complete($1, $2)`), int64(row.ID), int64(row.Fence))
	require.NoError(t, err)
	a.exec(t, `ALTER FUNCTION SCHEMA.raise_conflict(text) RENAME TO really_raise_conflict;
		CREATE FUNCTION SCHEMA.raise_conflict(reason text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
			IF reason LIKE '%is live with the key%' AND NOT EXISTS (SELECT FROM SCHEMA.task WHERE id = `+strconv.FormatInt(int64(id), 10)+`) THEN
				RETURN; -- as if the live row had ended just before the look
			END IF;
			PERFORM SCHEMA.really_raise_conflict(reason); END $$`)
	err = waits(t, a.harness, commit(t, tx), func() error {
		_, err := a.Retry(t.Context(), old.ID, "")
		return err
	})
	require.ErrorContains(t, err, "task "+strconv.FormatInt(int64(id), 10)+" is live with the key")
	a.follows(t, id, `{"n": 2}`)
}

// TestALowerBoundOnPayloadsKeepsNoRowFromEnding: a follower that has come before is as large as it was allowed to be.
func TestALowerBoundOnPayloadsKeepsNoRowFromEnding(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	row := a.keyed(t)
	q := again("2")
	noise := make([]byte, 150<<10)
	_, err := rand.NewChaCha8([32]byte{}).Read(noise)
	require.NoError(t, err)
	q.Payload = fmt.Appendf(nil, "%q", base64.StdEncoding.EncodeToString(noise)) // which the server cannot compress
	id, _, err := a.Enqueue(t.Context(), q)
	require.NoError(t, err)
	require.NoError(t, a.Migrator().SetMaxPayload(t.Context(), 128<<10))
	var input *store.InputError
	_, _, err = a.Enqueue(t.Context(), q)
	require.ErrorAs(t, err, &input, "the bound is that of followers, too")
	require.Equal(t, []store.Answer{store.Applied}, a.settle(t, done(row)))
	a.follows(t, id, string(q.Payload))
}

// TestATaskThatEnqueuesItselfAgain does so in the transaction that completes it, before or after that.
func TestATaskThatEnqueuesItselfAgain(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		a := joined(t, newHarness(t))
		row := a.keyed(t)
		tx := a.application(t, pgx.ReadCommitted)
		complete := func() {
			_, err := tx.Exec(t.Context(), a.q(`SELECT SCHEMA.complete($1, $2)`), int64(row.ID), int64(row.Fence))
			require.NoError(t, err)
		}
		want := store.EnqueuedInserted
		if before {
			want = store.EnqueuedFollows
		} else {
			complete()
		}
		_, err := tx.Exec(t.Context(), `SAVEPOINT s`)
		require.NoError(t, err)
		taken, answer, err := a.enqueueIn(t, tx, again("2"))
		require.NoError(t, err)
		require.Equal(t, want, answer)
		_, err = tx.Exec(t.Context(), `ROLLBACK TO s`)
		require.NoError(t, err)
		id, answer, err := a.enqueueIn(t, tx, again("3"))
		require.NoError(t, err)
		require.Equal(t, want, answer)
		require.NotEqual(t, taken, id)
		if before {
			complete()
		}
		commit(t, tx)()
		a.follows(t, id, `{"n": 3}`)
	}
}

// TestARowThatIsFollowedDelaysNoOther: once a settlement has waited for one, the others go on being settled the short way, which
// does not look at rows with a key.
func TestARowThatIsFollowedDelaysNoOther(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	row := a.keyed(t)
	tx, id := a.enqueuing(t, again("2"), store.EnqueuedFollows)
	for range 3 {
		ends := []store.Settlement{done(row)}
		want := []store.Answer{store.Busy}
		for _, other := range a.take(t, 10) {
			ends, want = append(ends, done(other)), append(want, store.Applied)
		}
		require.Equal(t, want, a.settle(t, ends...))
		plain, counted := a.ShortWay()
		require.True(t, plain)
		require.False(t, counted)
	}
	commit(t, tx)()
	require.Equal(t, []store.Answer{store.Applied}, a.settle(t, done(row)))
	a.follows(t, id, `{"n": 2}`)
}
