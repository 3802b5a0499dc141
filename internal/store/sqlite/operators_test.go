package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
)

// producer is a transaction in which an application inserts.
type producer struct{ *transaction }

func (h *harness) Produce(t testing.TB) storetest.Producer {
	t.Helper()
	a, ok := h.Begin(t).(*transaction)
	require.True(t, ok)
	return producer{a}
}

func (p producer) CreateBatch(ctx context.Context, b store.BatchRequest) (id task.BatchID, err error) {
	names, values := batchRequestColumns(b)
	text := "INSERT INTO batch DEFAULT VALUES RETURNING id"
	if len(names) > 0 {
		text = fmt.Sprintf("INSERT INTO batch (%s) VALUES (?%s) RETURNING id", strings.Join(names, ", "), strings.Repeat(", ?", len(names)-1))
	}
	err = p.tx.QueryRowContext(ctx, text, values...).Scan(&id)
	return id, err
}

// batchRequestColumns lists the columns that an application has something to say about.
func batchRequestColumns(b store.BatchRequest) (names []string, values []any) {
	add := func(name string, set bool, value any) {
		if set {
			names, values = append(names, name), append(values, value)
		}
	}
	add("name", b.Name != "", b.Name)
	add("on_failure", b.OnFailure != "", string(b.OnFailure))
	add("finish_type", b.FinishType != "", b.FinishType)
	add("finish_payload", b.FinishPayload != nil, string(b.FinishPayload))
	add("created_by", b.CreatedBy != "", b.CreatedBy)
	add("sealed", b.Open, false)
	labels, err := labelText(b.Labels)
	if err != nil {
		panic(err)
	}
	add("labels", labels != "", labels)
	return names, values
}

func (p producer) Insert(ctx context.Context, rows ...store.EnqueueRequest) (ids []task.ID, err error) {
	var names, places []string
	var values []any
	for _, r := range rows {
		var of []any
		names, of = requestColumns(r)
		places, values = append(places, "(?"+strings.Repeat(", ?", len(of)-1)+")"), append(values, of...)
	}
	found, err := p.tx.QueryContext(ctx, fmt.Sprintf("INSERT INTO task (%s) VALUES %s RETURNING id",
		strings.Join(names, ", "), strings.Join(places, ", ")), values...)
	if err == nil {
		err = eachRow(found, scanIDs(&ids))
	}
	if err != nil {
		return nil, storetest.Constant{Err: err}
	}
	return ids, nil
}

func (p producer) SealBatch(ctx context.Context, id task.BatchID) (answer string, err error) {
	if _, err := p.tx.ExecContext(ctx, "INSERT INTO seal_batch (id) VALUES (?)", id); err != nil {
		return "", err
	}
	err = p.tx.QueryRowContext(ctx, "SELECT answer FROM seal_batch WHERE id = ?", id).Scan(&answer)
	return answer, err
}

// operatorSQL is an operator with nothing but SQL.
type operatorSQL struct{ db *sql.DB }

func (h *harness) OperatorSQL(testing.TB) storetest.OperatorSQL { return operatorSQL{h.app} }

func (o operatorSQL) Cancel(ctx context.Context, id task.ID, by string) (store.Became, error) {
	answer, err := o.do(ctx, "cancel", "id, by", int64(id), by)
	return store.Became(answer), err
}

func (o operatorSQL) Retry(ctx context.Context, id task.ID, by string) (store.Became, error) {
	answer, err := o.do(ctx, "retry", "id, by", int64(id), by)
	return store.Became(answer), err
}

func (o operatorSQL) RetryWith(ctx context.Context, id task.ID, payload json.RawMessage, by string) (store.Became, error) {
	answer, err := o.do(ctx, "retry", "id, by, payload", int64(id), by, string(payload))
	return store.Became(answer), err
}

func (o operatorSQL) Rollback(ctx context.Context, id task.ID, by string) (store.Became, error) {
	answer, err := o.do(ctx, "rollback", "id, by", int64(id), by)
	return store.Became(answer), err
}

func (o operatorSQL) CancelBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return o.do(ctx, "cancel_batch", "id, by", int64(id), by)
}

func (o operatorSQL) RetryBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return o.do(ctx, "retry_batch", "id, by", int64(id), by)
}

func (o operatorSQL) RollbackBatch(ctx context.Context, id task.BatchID, by string, force bool) (string, error) {
	return o.do(ctx, "rollback_batch", "id, by, force", int64(id), by, force)
}

// do inserts into the view, and reads what it says of the id then.
func (o operatorSQL) do(ctx context.Context, view, columns string, id int64, values ...any) (answer string, err error) {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }() // where a statement was refused
	places := "?" + strings.Repeat(", ?", len(values))
	if _, err := tx.ExecContext(ctx, "INSERT INTO "+view+" ("+columns+") VALUES ("+places+")", append([]any{id}, values...)...); err != nil {
		return "", storetest.Constant{Err: err}
	}
	if err := tx.QueryRowContext(ctx, "SELECT answer FROM "+view+" WHERE id = ?", id).Scan(&answer); err != nil {
		return "", err
	}
	return answer, tx.Commit()
}

func (*harness) Roles(testing.TB) (agents, operators string) { return "", "" }

// ComparesJSON: an application brings its own SQLite, which cannot.
func (*harness) ComparesJSON() bool { return false }

func (h *harness) Audit(t testing.TB) (all []storetest.Audited) {
	t.Helper()
	rows, err := h.app.QueryContext(t.Context(),
		`SELECT ifnull(requested_by, ''), ifnull(role, ''), verb, ifnull(task_id, 0), ifnull(batch_id, 0), ifnull(schedule, ''), ifnull(chunks, ''), ifnull(type, ''), ifnull(reason, ''), answer
		FROM audit ORDER BY id`)
	require.NoError(t, err)
	require.NoError(t, eachRow(rows, func(r *sql.Rows) error {
		var a storetest.Audited
		err := r.Scan(&a.Who, &a.Role, &a.Verb, &a.Task, &a.Batch, &a.Schedule, &a.Chunks, &a.Type, &a.Reason, &a.Answer)
		all = append(all, a)
		return err
	}))
	return all
}

// BatchFailpoints names the points of a Fold that ends a batch, and of a Step.
func (*harness) BatchFailpoints() []string { return []string{failBegun, failCommit, failCommitted} }

// BatchStates inserts tasks that run: the view counts those itself.
func (h *harness) BatchStates(t testing.TB, facts []store.BatchFacts) (states []store.BatchState) {
	t.Helper()
	tx, err := h.app.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }() // where a statement was refused
	for i := range facts {
		f := &facts[i]
		var id int64
		require.NoError(t, tx.QueryRowContext(t.Context(), `INSERT INTO batch (requested, by_failure, ended_at, total, rolling_back, succeeded,
				failed, cancelled, rolled_back, rollback_failed, attempts)
			VALUES (nullif(?, ''), ?, iif(?, '2026-11-20T08:00:00.000Z', NULL), ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
			f.Requested, f.ByFailure, f.Ended, f.Total, f.RollingBack, f.Succeeded, f.Failed, f.Cancelled, f.RolledBack, f.RollbackFailed,
			f.Attempts).Scan(&id))
		for range f.Running { // as if revived: only the first insert of a row is counted
			_, err := tx.ExecContext(t.Context(), "INSERT INTO task (type, state, fence, batch_id) VALUES ('x', 'running', 1, ?)", id)
			require.NoError(t, err)
		}
	}
	rows, err := tx.QueryContext(t.Context(), "SELECT state FROM batches ORDER BY id")
	require.NoError(t, err)
	require.NoError(t, eachRow(rows, func(r *sql.Rows) error {
		var state string
		err := r.Scan(&state)
		states = append(states, store.BatchState(state))
		return err
	}))
	return states
}

// Fold folds as an agent does.
func (h *harness) Fold(ctx context.Context, limit int) (store.Folded, error) {
	return batch.NewEngine(h.Store).Fold(ctx, limit)
}

// Step takes a step as an agent does.
func (h *harness) Step(ctx context.Context, rows int) (store.Stepped, error) {
	return batch.NewEngine(h.Store).Step(ctx, rows)
}
