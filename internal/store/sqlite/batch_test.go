package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// counted asserts that the counters of every batch are what its rows say, in one snapshot.
func counted(t testing.TB, h *harness) {
	t.Helper()
	rows, err := h.app.QueryContext(t.Context(), `
		SELECT batch.id || ': ' || (total - removed) || ' ' || succeeded || ' ' || failed || ' ' || cancelled || ' ' || rolled_back || ' ' ||
				rollback_failed || ' ' || rolling_back,
			batch.id || ': ' || count(tasks.id) || ' ' || ifnull(sum(tasks.state = 'succeeded'), 0) || ' ' ||
				ifnull(sum(tasks.state = 'failed'), 0) || ' ' || ifnull(sum(tasks.state = 'cancelled'), 0) || ' ' ||
				ifnull(sum(tasks.state = 'rolled_back'), 0) || ' ' || ifnull(sum(tasks.state = 'rollback_failed'), 0) || ' ' ||
				ifnull(sum(tasks.state IN ('rollback_pending', 'rollback_running')), 0)
		FROM batch LEFT JOIN tasks ON tasks.batch_id = batch.id GROUP BY batch.id`)
	require.NoError(t, err)
	require.NoError(t, eachRow(rows, func(r *sql.Rows) error {
		var says, is string
		err := r.Scan(&says, &is)
		require.Equal(t, is, says)
		return err
	}))
}

// batchOf inserts a batch of n rows of type x by plain SQL, in one transaction.
func (h *harness) batchOf(t testing.TB, n int) (id task.BatchID) {
	t.Helper()
	tx, err := h.app.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }() // where a statement was refused
	require.NoError(t, tx.QueryRowContext(t.Context(), "INSERT INTO batch (name) VALUES ('b') RETURNING id").Scan(&id))
	_, err = tx.ExecContext(t.Context(), fmt.Sprintf(`
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO task (type, batch_id) SELECT 'x', ? FROM n`, n), int64(id))
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	return id
}

// answer reads what a view says of an id.
func (h *harness) answer(t testing.TB, view string, id task.BatchID) (answer string) {
	t.Helper()
	require.NoError(t, h.app.QueryRowContext(t.Context(), "SELECT answer FROM "+view+" WHERE id = ?", int64(id)).Scan(&answer))
	return answer
}

// carriedOut makes every step there is to make.
func (h *harness) carriedOut(t testing.TB, rows int) {
	t.Helper()
	for {
		did, err := h.Step(t.Context(), rows)
		require.NoError(t, err)
		require.LessOrEqual(t, did.Rows, rows)
		counted(t, h)
		if did.Rows == 0 && !did.Ended {
			return
		}
	}
}

// What docs/sql.md shows of batches, with nothing but SQL for the application and the operator.
func TestBatchesByPlainSQL(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := beating(nil)
	s := h.session(t, p)
	id := h.batchOf(t, 5)
	require.Equal(t, "pending", h.answer(t, "cancel_batch", id))
	w := store.Claim{Session: s, Number: 1, Wants: []store.Want{{Type: "x", Phase: task.Run, N: 4, Window: time.Hour, Policy: p.Hash("a")}}}
	rows, err := h.Claim(t.Context(), w)
	require.NoError(t, err)
	require.Len(t, rows, 4)
	require.Equal(t, id, rows[0].Batch)
	failed := succeeded(rows[1])
	failed.Next.State, failed.Outcome = task.StateFailed, task.Outcome{Verdict: task.Failed, Error: "it broke"}
	_, err = h.Settle(t.Context(), s, []store.Settlement{succeeded(rows[0]), failed})
	require.NoError(t, err)
	require.NoError(t, h.exec(t, "INSERT INTO complete (id, fence) VALUES (?, ?)", int64(rows[2].ID), int64(rows[2].Fence)))
	counted(t, h)
	var state string
	var live, running, waiting int
	require.NoError(t, h.app.QueryRowContext(t.Context(), "SELECT state, live, running, waiting FROM batches WHERE id = ?", int64(id)).
		Scan(&state, &live, &running, &waiting))
	require.Equal(t, []any{"running", 2, 1, 1}, []any{state, live, running, waiting})

	require.NoError(t, h.exec(t, "INSERT INTO rollback_batch (id, by) VALUES (?, 'ops')", int64(id)))
	require.Equal(t, "rolling_back", h.answer(t, "rollback_batch", id))
	again, err := h.Claim(t.Context(), w)
	require.NoError(t, err)
	require.Empty(t, again, "nothing of it starts")
	h.carriedOut(t, 2)
	require.Equal(t, 1, h.count(t, "SELECT count(*) FROM task WHERE cancel_requested_at IS NOT NULL AND cancel_requested_by = 'batch 1 (rollback by ops)'"))
	require.Equal(t, 0, h.count(t, "SELECT count(*) FROM task WHERE state = 'rollback_pending'"), "one of it runs still")
	stopped := succeeded(rows[3])
	stopped.Next.State, stopped.Outcome = task.StateRollbackPending, task.Outcome{Verdict: task.Failed}
	_, err = h.Settle(t.Context(), s, []store.Settlement{stopped})
	require.NoError(t, err)
	h.carriedOut(t, 2)
	require.Equal(t, 4, h.count(t, "SELECT count(*) FROM task WHERE state = 'rollback_pending'"))
	w.Wants[0].Phase = task.Rollback
	rollingBack, err := h.Claim(t.Context(), w)
	require.NoError(t, err)
	for _, row := range rollingBack {
		require.NoError(t, h.exec(t, "INSERT INTO complete (id, fence, result) VALUES (?, ?, '{\"reverted\": 1}')", int64(row.ID), int64(row.Fence)))
		counted(t, h)
	}
	folded, err := h.Fold(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, folded.Ended)
	require.Equal(t, "rolled_back", h.answer(t, "rollback_batch", id))
	require.Equal(t, 4, h.count(t, "SELECT rolled_back FROM batches"))
	require.Equal(t, 0, h.count(t, "SELECT count(*) FROM task_archive WHERE result LIKE '%reverted%'"), "that is the run's")
	require.Equal(t, 4, h.count(t, "SELECT count(*) FROM attempt WHERE result LIKE '%reverted%'"))
}

// The newest is rolled back first, be there more rows than a step takes, and more than there are milliseconds in a second.
func TestTheNewestIsRolledBackFirst(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := beating(nil)
	s := h.session(t, p)
	const rows = 3000
	id := h.batchOf(t, rows)
	ends := settleAll(h.held(t, s, p, task.Run, 0, 0)...)
	tasks, err := h.Claim(t.Context(), store.Claim{Session: s, Number: 1, Wants: []store.Want{
		{Type: "x", Phase: task.Run, N: rows, Window: time.Hour, Policy: p.Hash("a")},
	}})
	require.NoError(t, err)
	for i, row := range tasks {
		end := succeeded(row)
		end.Started = time.Hour - time.Duration(i/3)*time.Second // three at a time, for each second one
		ends = append(ends, end)
	}
	_, err = h.Settle(t.Context(), s, ends)
	require.NoError(t, err)
	before := time.Now()
	answer, err := h.RollbackBatch(t.Context(), id, "", false)
	require.NoError(t, err)
	require.Equal(t, "rolling_back", answer)
	h.carriedOut(t, 700)
	rolledBack, err := h.Claim(t.Context(), store.Claim{Session: s, Number: 2, Wants: []store.Want{
		{Type: "x", Phase: task.Rollback, N: rows, Window: time.Hour, Policy: p.Hash("a")},
	}})
	require.NoError(t, err)
	require.Len(t, rolledBack, rows)
	for i, row := range rolledBack {
		require.False(t, row.RunAt.Before(before.Add(-1100*time.Millisecond)))
		second := int(row.ID-tasks[0].ID) / 3
		require.Equal(t, (rows-1)/3-i/3, second, "row %d", i)
	}
}

// More rows of a batch that is being stopped than a claim looks past keep only those behind them from being claimed, and
// only until they are marked.
func TestAClaimLooksPastWhatIsBeingStopped(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.session(t)
	first := h.Insert(t, store.EnqueueRequest{Type: "x"}, store.EnqueueRequest{Type: "x", Priority: -1})
	id := h.batchOf(t, lookPast+500)
	behind := h.Insert(t, store.EnqueueRequest{Type: "x", In: time.Millisecond})[0]
	_, err := h.CancelBatch(t.Context(), id, "ops")
	require.NoError(t, err)
	h.Advance(t, time.Second)
	number := int64(0)
	claim := func() (ids []task.ID) {
		number++
		rows, err := h.Claim(t.Context(), claimOf(s, number))
		require.NoError(t, err)
		for _, row := range rows {
			require.Zero(t, row.Batch)
			ids = append(ids, row.ID)
		}
		return ids
	}
	in, ok, err := h.NextDue(t.Context(), claimOf(s, 1))
	require.NoError(t, err)
	require.True(t, ok)
	require.Zero(t, in)
	require.Equal(t, first, claim())
	_, ok, err = h.NextDue(t.Context(), claimOf(s, 1))
	require.NoError(t, err)
	require.False(t, ok, "an agent must not take for claimable what it cannot claim")
	require.Empty(t, claim())
	did, err := h.Step(t.Context(), 501)
	require.NoError(t, err)
	require.Equal(t, 501, did.Rows)
	_, ok, err = h.NextDue(t.Context(), claimOf(s, 1))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, []task.ID{behind}, claim())
	h.carriedOut(t, 2000)
	require.Equal(t, lookPast+500, h.count(t, "SELECT cancelled FROM batch"))
}

// An application's open transaction that inserts into a batch makes agents wait, and nothing else: what it inserts is
// counted, and the batch does not end before it.
func TestAnOpenTransactionInsertsWhileOthersSettle(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.session(t)
	p := h.Produce(t)
	id, err := p.CreateBatch(t.Context(), store.BatchRequest{Open: true, FinishType: "done"})
	require.NoError(t, err)
	_, err = p.Insert(t.Context(), store.EnqueueRequest{Type: "x", Batch: id}, store.EnqueueRequest{Type: "x", Batch: id})
	require.NoError(t, err)
	require.NoError(t, p.Commit(t.Context()))
	rows, err := h.Claim(t.Context(), claimOf(s, 1))
	require.NoError(t, err)
	require.Len(t, rows, 2)

	p = h.Produce(t)
	_, err = p.Insert(t.Context(), store.EnqueueRequest{Type: "x", Batch: id})
	require.NoError(t, err)
	_, err = p.SealBatch(t.Context(), id)
	require.NoError(t, err)
	var agents sync.WaitGroup
	results := make(chan error, 3)
	begun := make(chan struct{}, 2)
	for _, row := range rows {
		agents.Go(func() {
			begun <- struct{}{}
			answers, err := h.Settle(t.Context(), s, settleAll(row))
			results <- errors.Join(err, applied(answers...))
		})
	}
	twin, ok := h.Twin(t).(*harness)
	require.True(t, ok)
	agents.Go(func() {
		_, err := twin.Fold(t.Context(), 10)
		results <- err
	})
	<-begun
	<-begun
	info, err := h.GetBatch(t.Context(), id)
	require.NoError(t, err, "reads go on")
	require.EqualValues(t, 2, info.Live)
	require.False(t, info.Sealed)
	require.NoError(t, p.Commit(t.Context()))
	agents.Wait()
	for range 3 {
		require.NoError(t, <-results)
	}
	counted(t, h)
	_, err = h.Fold(t.Context(), 10)
	require.NoError(t, err)
	info, err = h.GetBatch(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, store.BatchRunning, info.State)
	require.EqualValues(t, 1, info.Live)
	rows, err = h.Claim(t.Context(), claimOf(s, 2))
	require.NoError(t, err)
	_, err = h.Settle(t.Context(), s, settleAll(rows...))
	require.NoError(t, err)
	for _, want := range []int{1, 0} { // once
		folded, err := h.Fold(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, want, folded.Ended)
		require.Equal(t, 1, h.count(t, "SELECT count(*) FROM task WHERE type = 'done'"))
	}
}

// Rows that do not fit into memory make the batch just as well, and one bad row among them leaves nothing of it.
func TestABatchLargerThanMemory(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const rows = 450
	large := `{"x": "` + strings.Repeat("x", 100_000) + `"}`
	give := func(bad int) func(yield func(store.EnqueueRequest, error) bool) {
		return func(yield func(store.EnqueueRequest, error) bool) {
			for i := range rows {
				r := store.EnqueueRequest{Type: "x", Payload: []byte(large), Key: fmt.Sprint(i), Priority: i % 10, In: time.Duration(i) * time.Second}
				if i == bad {
					r.Key = "7"
				}
				if !yield(r, nil) {
					return
				}
			}
		}
	}
	var reported []int64
	_, err := h.CreateBatch(t.Context(), store.BatchRequest{}, give(430), nil)
	var input *store.InputError
	require.ErrorAs(t, err, &input)
	require.Contains(t, input.Text, "row 431: ")
	require.Equal(t, 0, h.count(t, "SELECT count(*) FROM batch"))
	require.Equal(t, 0, h.count(t, "SELECT count(*) FROM task"))
	broken := errors.New("line 12 is no JSON")
	_, err = h.CreateBatch(t.Context(), store.BatchRequest{}, func(yield func(store.EnqueueRequest, error) bool) { yield(store.EnqueueRequest{}, broken) }, nil)
	require.ErrorIs(t, err, broken)
	require.Equal(t, 0, h.count(t, "SELECT count(*) FROM batch"))

	id, err := h.CreateBatch(t.Context(), store.BatchRequest{}, give(-1), func(n int64) { reported = append(reported, n) })
	require.NoError(t, err)
	require.Equal(t, []int64{200, 400, 450}, reported)
	require.Equal(t, rows, h.count(t, "SELECT count(*) FROM task WHERE batch_id = ? AND length(payload) = ? AND key = id - (SELECT min(id) FROM task)",
		int64(id), len(large)))
	counted(t, h)
}

// Whatever an operator does that makes rows due, or that agents have to carry on, wakes those that are idle.
func TestOperatorsWake(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := beating(nil)
	s := h.session(t, p)
	rows := h.held(t, s, p, task.Run, 2, 0)
	failed := succeeded(rows[0])
	failed.Next.State, failed.Outcome.Verdict = task.StateFailed, task.Failed
	_, err := h.Settle(t.Context(), s, []store.Settlement{failed, succeeded(rows[1])})
	require.NoError(t, err)
	id := h.batchOf(t, 1)
	l, err := newListener(t.Context(), h.read, h.sql)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.close()) }()
	before, err := l.look(t.Context())
	require.NoError(t, err)
	for _, c := range []struct {
		insert string
		of     any
		news   store.News
	}{
		{"retry", rows[0].ID, store.Due}, {"rollback", rows[1].ID, store.Due},
		{"seal_batch", id, store.CancelNews}, {"cancel_batch", id, store.CancelNews}, {"rollback_batch", id, store.CancelNews},
	} {
		for _, want := range []store.News{c.news, 0} { // a repeat is no news
			require.NoError(t, h.exec(t, fmt.Sprintf("INSERT INTO %s (id) VALUES (%d)", c.insert, c.of)))
			now, err := l.look(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, now.since(before), c.insert)
			before = now
		}
	}
}

// An attempt that was completed stays completed, whatever became of the task since: a repeated completion must not be
// refused, and the lease must not count as lost.
func TestCompletedStaysCompleted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := beating(nil)
	s := h.session(t, p)
	row := h.held(t, s, p, task.Run, 1, 0)[0]
	complete := func() error {
		return h.exec(t, "INSERT INTO complete (id, fence) VALUES (?, ?)", int64(row.ID), int64(row.Fence))
	}
	require.NoError(t, complete())
	_, err := h.Rollback(t.Context(), row.ID, "")
	require.NoError(t, err)
	require.NoError(t, complete())
	done, err := h.Completed(t.Context(), []store.Held{{ID: row.ID, Fence: row.Fence}, {ID: row.ID, Fence: row.Fence + 1}})
	require.NoError(t, err)
	require.Equal(t, []bool{true, false}, done)
	answer, err := h.Complete(t.Context(), row.ID, row.Fence, nil)
	require.NoError(t, err)
	require.Equal(t, store.Ended, answer)
	answers, err := h.Settle(t.Context(), s, settleAll(row))
	require.NoError(t, err)
	require.Equal(t, []store.Answer{store.Ended}, answers)
}
