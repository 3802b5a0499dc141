package postgres_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

// gate is an advisory lock at which a test has calls wait.
const gate = 20261122

// shutGate shuts the gate until open is called.
func shutGate(t *testing.T) (open func()) {
	t.Helper()
	conn := pgtest.Connect(t)
	_, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, gate)
	require.NoError(t, err)
	return func() {
		_, err := conn.Exec(t.Context(), `SELECT pg_advisory_unlock($1)`, gate)
		require.NoError(t, err)
	}
}

// batchOf inserts a batch of n rows in one transaction.
func (h *harness) batchOf(t *testing.T, n int, b store.BatchRequest) (id task.BatchID, ids []task.ID) {
	t.Helper()
	p := h.Produce(t)
	id, err := p.CreateBatch(t.Context(), b)
	require.NoError(t, err)
	if n > 0 {
		ids, err = p.Insert(t.Context(), slices.Repeat([]store.EnqueueRequest{{Type: "a", Batch: id}}, n)...)
		require.NoError(t, err)
	}
	require.NoError(t, p.Commit(t.Context()))
	return id, ids
}

// claim claims at most n rows.
func (a *agentOn) claim(t *testing.T, n int) []task.Task {
	t.Helper()
	a.claims++
	rows, err := a.Claim(t.Context(), store.Claim{Session: a.session, Number: a.claims, Wants: []store.Want{wantOf(n)}})
	require.NoError(t, err)
	return rows
}

// inState asserts where a batch stands.
func (h *harness) inState(t *testing.T, id task.BatchID, want store.BatchState) *store.BatchInfo {
	t.Helper()
	b, err := h.GetBatch(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, want, b.State, "%+v", b)
	return b
}

// carryOut steps until nothing is to be done.
func (h *harness) carryOut(t *testing.T) {
	t.Helper()
	for {
		s, err := h.Step(t.Context(), 2)
		require.NoError(t, err)
		if s.Rows == 0 && !s.Ended {
			return
		}
	}
}

// TestAClaimThatBeganBeforeTheCancel: its snapshot does not know of the cancellation, which commits before the claim has
// looked at the batch once more.
func TestAClaimThatBeganBeforeTheCancel(t *testing.T) {
	a := joined(t, newHarness(t))
	a.exec(t, fmt.Sprintf(`ALTER FUNCTION SCHEMA.reserve_start(bigint, bigint) RENAME TO really_reserve_start;
		CREATE FUNCTION SCHEMA.reserve_start(batch bigint, n bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_advisory_xact_lock_shared(%d); RETURN SCHEMA.really_reserve_start(batch, n); END $$`, gate))
	id, _ := a.batchOf(t, 3, store.BatchRequest{})
	free := a.Insert(t, store.EnqueueRequest{Type: "a"})[0]
	open := shutGate(t)
	var rows []task.Task
	require.NoError(t, waits(t, a.harness, func() {
		said, err := a.CancelBatch(t.Context(), id, "alice")
		require.NoError(t, err)
		require.Equal(t, "cancelling", said)
		open()
	}, func() (err error) {
		rows, err = a.Claim(t.Context(), store.Claim{Session: a.session, Number: 1, Wants: []store.Want{wantOf(10)}})
		return err
	}))
	require.Len(t, rows, 1)
	require.Equal(t, free, rows[0].ID, "the row of no batch")
	a.carryOut(t)
	require.EqualValues(t, 3, a.inState(t, id, store.BatchRunning).Cancelled)
}

// TestACancelWaitsForClaimsInFlight: a claim that has looked already is over, committed, when the cancellation is; and none
// that looks meanwhile takes anything.
func TestACancelWaitsForClaimsInFlight(t *testing.T) {
	a := joined(t, newHarness(t))
	other := joined(t, a.harness)
	a.exec(t, fmt.Sprintf(`CREATE FUNCTION SCHEMA.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_advisory_xact_lock_shared(%d); RETURN NEW; END $$;
		CREATE TRIGGER slow BEFORE UPDATE ON SCHEMA.task FOR EACH ROW WHEN (NEW.session = %d) EXECUTE FUNCTION SCHEMA.slow()`,
		gate, a.session))
	id, _ := a.batchOf(t, 3, store.BatchRequest{})
	open := shutGate(t)
	var rows []task.Task
	var cancelled time.Time
	done := make(chan error, 1)
	require.NoError(t, waits(t, a.harness, func() {
		go func() {
			_, err := a.CancelBatch(t.Context(), id, "alice")
			cancelled = time.Now()
			done <- err
		}()
		const waiting = `SELECT count(*) FROM pg_locks WHERE mode = 'ExclusiveLock' AND NOT granted
			AND relation = to_regclass('SCHEMA.batch_gate_' || $1::bigint % 8)`
		for end := time.Now().Add(soon); a.number(t, waiting, int64(id)) == 0; {
			require.True(t, time.Now().Before(end), "it does not wait")
			require.Empty(t, done, "it does not wait")
		}
		require.Empty(t, other.claim(t, 5), "who looks now takes nothing")
		open()
	}, func() (err error) {
		rows, err = a.Claim(t.Context(), store.Claim{Session: a.session, Number: 1, Wants: []store.Want{wantOf(1)}})
		return err
	}))
	require.NoError(t, <-done)
	require.False(t, cancelled.IsZero())
	require.Len(t, rows, 1)
	a.exec(t, `DROP TRIGGER slow ON SCHEMA.task`)
	require.Empty(t, a.claim(t, 5))
	a.carryOut(t)
	info, err := a.Get(t.Context(), rows[0].ID)
	require.NoError(t, err)
	require.NotNil(t, info.CancelRequested)
	require.Equal(t, "batch "+fmt.Sprint(id)+" (cancel by alice)", info.CancelRequestedBy)
}

// TestAnOpenCancelBlocksNoOther: until it commits rows of the batch are claimed and settled, and other batches end.
func TestAnOpenCancelBlocksNoOther(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	id, _ := a.batchOf(t, 4, store.BatchRequest{})
	tx, err := pgtest.ConnectTo(t, a.asOperator).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), a.q(`SELECT SCHEMA.cancel_batch($1)`), int64(id))
	require.NoError(t, err)
	rows := a.claim(t, 2)
	require.Len(t, rows, 2)
	require.Equal(t, all(1, store.Applied), a.settle(t, done(rows[0])))
	empty, _ := a.batchOf(t, 0, store.BatchRequest{})
	f, err := a.Fold(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, f.Ended)
	require.Equal(t, empty, f.Ends[0].ID)
	s, err := a.Step(t.Context(), 10)
	require.NoError(t, err)
	require.False(t, s.Found, "the cancellation has not committed")
	require.NoError(t, tx.Commit(t.Context()))
	require.Empty(t, a.claim(t, 5))
	require.Equal(t, all(1, store.Applied), a.settle(t, done(rows[1])), "what has started may succeed")
	a.carryOut(t)
	f, err = a.Fold(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, f.Ended)
	b := a.inState(t, id, store.BatchCancelled)
	require.EqualValues(t, 2, b.Succeeded)
	require.EqualValues(t, 2, b.Cancelled)
}

// TestOlderSnapshots: transactions that see the batch as it was cannot bring it rows once it has ended; once it is being
// cancelled they can, and these are cancelled, too.
func TestOlderSnapshots(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	begin := func(id task.BatchID) pgx.Tx {
		tx, err := pgtest.ConnectTo(t, h.asApp).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), h.q(`SELECT state FROM SCHEMA.batches WHERE id = $1`), int64(id))
		require.NoError(t, err)
		return tx
	}
	const insert = `INSERT INTO SCHEMA.task (type, batch_id) VALUES ('a', $1)`

	sealed, _ := h.batchOf(t, 0, store.BatchRequest{Open: true})
	tx := begin(sealed)
	_, err := h.SealBatch(t.Context(), sealed)
	require.NoError(t, err)
	f, err := h.Fold(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, f.Ended)
	_, err = tx.Exec(t.Context(), h.q(insert), int64(sealed))
	require.ErrorContains(t, err, "40001")
	require.NoError(t, tx.Rollback(t.Context()))

	stopped, _ := h.batchOf(t, 2, store.BatchRequest{Open: true})
	tx = begin(stopped)
	_, err = h.CancelBatch(t.Context(), stopped, "alice")
	require.NoError(t, err)
	h.carryOut(t)
	_, err = tx.Exec(t.Context(), h.q(insert), int64(stopped))
	require.NoError(t, err)
	f, err = h.Fold(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, f.Ended, "a transaction that inserted a row is still open")
	require.NoError(t, tx.Commit(t.Context()))
	_, err = h.Fold(t.Context(), 10)
	require.NoError(t, err)
	h.carryOut(t)
	f, err = h.Fold(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, f.Ended)
	require.EqualValues(t, 3, h.inState(t, stopped, store.BatchCancelled).Cancelled)
}

// TestRefusalsOfBatchesReadWell has an application run into each by plain SQL, and the Go calls say the same.
func TestRefusalsOfBatchesReadWell(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	app := pgtest.ConnectTo(t, h.asApp)
	sealed, _ := h.batchOf(t, 1, store.BatchRequest{})
	stopped, _ := h.batchOf(t, 1, store.BatchRequest{Open: true})
	rolledBack, _ := h.batchOf(t, 1, store.BatchRequest{Open: true})
	_, err := h.CancelBatch(t.Context(), stopped, "")
	require.NoError(t, err)
	_, err = h.RollbackBatch(t.Context(), rolledBack, "", false)
	require.NoError(t, err)
	for id, text := range map[task.BatchID]string{
		sealed:  "is sealed: insert its rows in the transaction that creates it, or create it with sealed = false",
		stopped: "was cancelled: create another", rolledBack: "was rolled back: create another",
	} {
		text = fmt.Sprintf("batch %d %s", id, text)
		_, err := app.Exec(t.Context(), h.q(`INSERT INTO SCHEMA.task (type, batch_id) VALUES ('a', $1)`), int64(id))
		require.ErrorContains(t, err, text+" (SQLSTATE LH409)")
		_, err = app.Exec(t.Context(), h.q(`SELECT SCHEMA.enqueue('a', batch_id => $1)`), int64(id))
		require.ErrorContains(t, err, text+" (SQLSTATE LH409)")
		_, _, err = h.Enqueue(t.Context(), store.EnqueueRequest{Type: "a", Batch: id})
		var input *store.InputError
		require.ErrorAs(t, err, &input)
		require.Equal(t, text, input.Text)
	}
	_, err = app.Exec(t.Context(), h.q(`INSERT INTO SCHEMA.task (type, batch_id) VALUES ('a', 4711)`))
	require.ErrorContains(t, err, "there is no batch 4711 (SQLSTATE LH409)")
	for columns, text := range map[string]string{
		`(on_failure) VALUES ('explode')`:         "on_failure must be continue, cancel or rollback",
		`(finish_type) VALUES ('')`:               "finish_type must not be empty: leave it out instead",
		`(finish_payload) VALUES ('[]')`:          "finish_payload must be a JSON object",
		`(labels) VALUES ('{"a": 1}')`:            "labels must be a JSON object of strings",
		`(name) VALUES (repeat('x', 256))`:        "name must be 255 bytes at most",
		`(finish_type) VALUES (repeat('x', 256))`: "finish_type must be 255 bytes at most",
		`(created_by) VALUES (repeat('x', 513))`:  "created_by must be 512 bytes at most",
	} {
		_, err := app.Exec(t.Context(), h.q(`INSERT INTO SCHEMA.batch `+columns))
		require.ErrorContains(t, err, `violates check constraint "`+text+`"`, columns)
	}
}
