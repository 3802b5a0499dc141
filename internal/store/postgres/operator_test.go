package postgres_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
)

// producer is an application's transaction that inserts, with the rights of its role.
type producer struct {
	h  *harness
	t  testing.TB
	tx pgx.Tx
}

// Produce begins a transaction on a connection that nothing else uses meanwhile.
func (h *harness) Produce(t testing.TB) storetest.Producer {
	t.Helper()
	conn, end := h.connections.connection(t, h.asApp)
	t.Cleanup(end)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	return &producer{h, t, tx}
}

func (p *producer) CreateBatch(ctx context.Context, b store.BatchRequest) (id task.BatchID, err error) {
	labels, err := json.Marshal(b.Labels)
	if err != nil {
		return 0, err
	}
	var columns, values []string
	var args []any
	add := func(column string, set bool, cast string, value any) {
		if !set {
			return
		}
		args = append(args, value)
		columns = append(columns, column)
		values = append(values, "$"+strconv.Itoa(len(args))+cast)
	}
	add("name", true, "::text", b.Name)
	add("on_failure", b.OnFailure != "", "::text", string(b.OnFailure))
	add("finish_type", b.FinishType != "", "::text", b.FinishType)
	add("finish_payload", b.FinishPayload != nil, "::text::jsonb", string(b.FinishPayload))
	add("labels", len(b.Labels) > 0, "::text::jsonb", string(labels))
	add("created_by", b.CreatedBy != "", "::text", b.CreatedBy)
	add("sealed", b.Open, "::boolean", false)
	err = p.tx.QueryRow(ctx, p.h.q(`INSERT INTO SCHEMA.batch (`+strings.Join(columns, ", ")+`) VALUES (`+
		strings.Join(values, ", ")+`) RETURNING id`), args...).Scan((*int64)(&id))
	return id, err
}

func (p *producer) Insert(ctx context.Context, rows ...store.EnqueueRequest) (ids []task.ID, err error) {
	var columns string
	var values []string
	var all []any
	for _, r := range rows {
		names, _, args := producerColumns(p.t, r)
		columns = names
		var places []string
		for i, name := range producerNames(r) {
			places = append(places, producerValue(r, name, len(all)+i+1))
		}
		values = append(values, "("+strings.Join(places, ", ")+")")
		all = append(all, args...)
	}
	found, err := p.tx.Query(ctx, p.h.q(`INSERT INTO SCHEMA.task (`+columns+`) VALUES `+strings.Join(values, ", ")+
		` RETURNING id`), all...)
	if err != nil {
		return nil, err
	}
	var id int64
	_, err = pgx.ForEachRow(found, []any{&id}, func() error {
		ids = append(ids, task.ID(id))
		return nil
	})
	return ids, err
}

func (p *producer) SealBatch(ctx context.Context, id task.BatchID) (answer string, err error) {
	err = p.tx.QueryRow(ctx, p.h.q(`SELECT SCHEMA.seal_batch($1)`), int64(id)).Scan(&answer)
	return answer, err
}

func (p *producer) Commit(ctx context.Context) error { return p.tx.Commit(ctx) }

func (p *producer) Rollback(ctx context.Context) error {
	if err := p.tx.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	return nil
}

// operatorSQL is what an operator's role calls.
type operatorSQL struct {
	h    *harness
	conn *pgx.Conn
}

// OperatorSQL gives it, on a connection that nothing else uses during the test.
func (h *harness) OperatorSQL(t testing.TB) storetest.OperatorSQL {
	t.Helper()
	conn, end := h.connections.connection(t, h.asOperator)
	t.Cleanup(end)
	return operatorSQL{h, conn}
}

func (o operatorSQL) call(ctx context.Context, what string, args ...any) (answer string, err error) {
	err = o.conn.QueryRow(ctx, o.h.q(`SELECT SCHEMA.`+what), args...).Scan(&answer)
	return answer, err
}

func (o operatorSQL) Cancel(ctx context.Context, id task.ID, by string) (store.Became, error) {
	answer, err := o.call(ctx, `cancel($1, $2)`, int64(id), by)
	return store.Became(answer), err
}

func (o operatorSQL) Retry(ctx context.Context, id task.ID, by string) (store.Became, error) {
	answer, err := o.call(ctx, `retry($1, $2)`, int64(id), by)
	return store.Became(answer), err
}

func (o operatorSQL) RetryWith(ctx context.Context, id task.ID, payload json.RawMessage, by string) (store.Became, error) {
	answer, err := o.call(ctx, `retry($1, $2, $3)`, int64(id), by, string(payload))
	return store.Became(answer), err
}

func (o operatorSQL) Rollback(ctx context.Context, id task.ID, by string) (store.Became, error) {
	answer, err := o.call(ctx, `rollback($1, $2)`, int64(id), by)
	return store.Became(answer), err
}

func (o operatorSQL) CancelBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return o.call(ctx, `cancel_batch($1, $2)`, int64(id), by)
}

func (o operatorSQL) RetryBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return o.call(ctx, `retry_batch($1, $2)`, int64(id), by)
}

func (o operatorSQL) RollbackBatch(ctx context.Context, id task.BatchID, by string, force bool) (string, error) {
	return o.call(ctx, `rollback_batch($1, $2, $3)`, int64(id), by, force)
}

// Roles are in the URLs.
func (h *harness) Roles(t testing.TB) (agents, operators string) {
	t.Helper()
	name := func(in string) string {
		u, err := url.Parse(in)
		require.NoError(t, err)
		return u.User.Username()
	}
	return name(cmp.Or(h.asAgent, pgtest.URL(t))), name(h.asOperator)
}

// ComparesJSON: its functions compare jsonb.
func (*harness) ComparesJSON() bool { return true }

// Audit reads the table.
func (h *harness) Audit(t testing.TB) []storetest.Audited {
	t.Helper()
	conn, end := h.connections.connection(t, pgtest.URL(t))
	defer end()
	rows, err := conn.Query(t.Context(), h.q(`
		SELECT coalesce(requested_by, ''), role, verb, coalesce(task_id, 0), coalesce(batch_id, 0), coalesce(schedule, ''), coalesce(chunks, ''), coalesce(type, ''), coalesce(reason, ''), answer
		FROM SCHEMA.audit ORDER BY id`))
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a storetest.Audited, err error) {
		err = row.Scan(&a.Who, &a.Role, &a.Verb, (*int64)(&a.Task), (*int64)(&a.Batch), &a.Schedule, &a.Chunks, &a.Type, &a.Reason, &a.Answer)
		return a, err
	})
	require.NoError(t, err)
	return all
}

// BatchFailpoints are those of folds and steps.
func (*harness) BatchFailpoints() []string { return postgres.BatchFailpoints() }

// BatchStates spreads the counters over the row and a delta.
func (h *harness) BatchStates(t testing.TB, facts []store.BatchFacts) []store.BatchState {
	t.Helper()
	b := &pgx.Batch{}
	for i := range facts {
		f := &facts[i]
		b.Queue(h.q(`WITH b AS (
			INSERT INTO SCHEMA.batch (requested, by_failure, ended_at, total, running, rolling_back, succeeded, failed)
			VALUES (nullif($1, ''), $2, CASE WHEN $3 THEN now() END, $4, $5, $6, $7, $8) RETURNING id)
			INSERT INTO SCHEMA.batch_delta (batch_id, attempts, cancelled, rolled_back, rollback_failed)
			SELECT id, $9, $10, $11, $12 FROM b`), f.Requested, f.ByFailure, f.Ended, f.Total, f.Running, f.RollingBack, f.Succeeded,
			f.Failed, f.Attempts, f.Cancelled, f.RolledBack, f.RollbackFailed)
	}
	conn := pgtest.Connect(t)
	require.NoError(t, conn.SendBatch(t.Context(), b).Close())
	rows, err := conn.Query(t.Context(), h.q(`SELECT state FROM SCHEMA.batches ORDER BY id`))
	require.NoError(t, err)
	states, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	out := make([]store.BatchState, len(states))
	for i, s := range states {
		out[i] = store.BatchState(s)
	}
	return out
}

// Fold folds as an agent does.
func (h *harness) Fold(ctx context.Context, limit int) (store.Folded, error) {
	return batch.NewEngine(h.Store).Fold(ctx, limit)
}

// Step takes a step as an agent does.
func (h *harness) Step(ctx context.Context, rows int) (store.Stepped, error) {
	return batch.NewEngine(h.Store).Step(ctx, rows)
}
