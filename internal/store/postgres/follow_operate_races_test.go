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

// As follow_races_test.go, of what operators and batches do, and of more than one follower.

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
