package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
)

// transaction is an application's, with inserts into the views that stand in for functions. They return nothing.
type transaction struct {
	tx    *sql.Tx
	ended bool
}

// Begin begins a transaction with the application's connection.
func (h *harness) Begin(t testing.TB) storetest.Application {
	t.Helper()
	tx, err := h.app.BeginTx(context.WithoutCancel(t.Context()), nil)
	require.NoError(t, err)
	return &transaction{tx: tx}
}

func (a *transaction) Hold(ctx context.Context, id task.ID, f task.Fence) error {
	_, err := a.tx.ExecContext(ctx, "INSERT INTO hold (id, fence) VALUES (?, ?)", id, f)
	return err
}

func (a *transaction) Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) error {
	_, err := a.tx.ExecContext(ctx, "INSERT INTO complete (id, fence, result) VALUES (?, ?, ?)", id, f, textOrNull(string(result)))
	return err
}

func (a *transaction) Ping(ctx context.Context, id task.ID, f task.Fence, p store.Ping) (*store.PingReply, error) {
	var within any
	if p.NextWithin != 0 {
		within = p.NextWithin.Seconds()
	}
	_, err := a.tx.ExecContext(ctx, `INSERT INTO ping (id, fence, progress, checkpoint, message, next_within_s)
		VALUES (?, ?, ?, ?, ?, ?)`, id, f, textOrNull(plain(p.Progress)), textOrNull(string(p.Checkpoint)), textOrNull(p.Message), within)
	return nil, err
}

func (a *transaction) Cancel(ctx context.Context, id task.ID, by string) (store.Became, error) {
	_, err := a.tx.ExecContext(ctx, `INSERT INTO cancel (id, "by") VALUES (?, ?)`, id, textOrNull(by))
	return "", err
}

func (a *transaction) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (fence task.Fence, err error) {
	_, err = a.tx.ExecContext(ctx, "INSERT INTO acquire (name, holder, ttl_s) VALUES (?, ?, ?)", name, holder, ttl.Seconds())
	if err != nil {
		return 0, err
	}
	err = a.tx.QueryRowContext(ctx, "SELECT fence FROM acquire WHERE name = ? AND holder = ?", name, holder).Scan(&fence)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return fence, err
}

func (a *transaction) RenewLease(ctx context.Context, name string, f task.Fence) error {
	_, err := a.tx.ExecContext(ctx, "INSERT INTO renew_lease (name, fence) VALUES (?, ?)", name, f)
	return err
}

func (a *transaction) ReleaseLease(ctx context.Context, name string, f task.Fence) error {
	_, err := a.tx.ExecContext(ctx, "INSERT INTO release_lease (name, fence) VALUES (?, ?)", name, f)
	return err
}

func (a *transaction) HoldLease(ctx context.Context, name string, f task.Fence) error {
	_, err := a.tx.ExecContext(ctx, "INSERT INTO hold_lease (name, fence) VALUES (?, ?)", name, f)
	return err
}

func (h *harness) NamedLeases(t testing.TB) (all []store.NamedLease) {
	t.Helper()
	rows, err := h.app.QueryContext(t.Context(), "SELECT name, holder, fence, acquired_at, expires_at FROM leases ORDER BY name")
	require.NoError(t, err)
	require.NoError(t, eachRow(rows, func(r *sql.Rows) error {
		var l store.NamedLease
		err := r.Scan(&l.Name, &l.Holder, &l.Fence, timeOf{&l.AcquiredAt}, timeOf{&l.ExpiresAt})
		all = append(all, l)
		return err
	}))
	return all
}

func (a *transaction) Commit(context.Context) error {
	a.ended = true
	return a.tx.Commit()
}

func (a *transaction) Rollback(context.Context) error {
	if a.ended {
		return nil
	}
	a.ended = true
	return a.tx.Rollback()
}

// plain is progress as SQL takes it: a string that names a position stands for itself.
func plain(progress json.RawMessage) string {
	var text string
	if json.Unmarshal(progress, &text) == nil {
		return text
	}
	return string(progress)
}

func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
