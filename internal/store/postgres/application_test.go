package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
)

// transaction is an application's, with the rights of its role.
type transaction struct {
	h   *harness
	tx  pgx.Tx
	end func() // closes its connection
}

// Begin begins a transaction on a connection that nothing else uses meanwhile.
func (h *harness) Begin(t testing.TB) storetest.Application {
	t.Helper()
	conn, end := h.connections.connection(t, h.asApp)
	t.Cleanup(end)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	return &transaction{h, tx, end}
}

func (a *transaction) Hold(ctx context.Context, id task.ID, f task.Fence) error {
	_, err := a.tx.Exec(ctx, a.h.q(`SELECT SCHEMA.hold($1, $2)`), int64(id), int64(f))
	return err
}

func (a *transaction) Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) error {
	_, err := a.tx.Exec(ctx, a.h.q(`SELECT SCHEMA.complete($1, $2, nullif($3::text, '')::jsonb)`), int64(id), int64(f), string(result))
	return err
}

func (a *transaction) Ping(ctx context.Context, id task.ID, f task.Fence, p store.Ping) (*store.PingReply, error) {
	progress := string(p.Progress)
	var text string
	if json.Unmarshal(p.Progress, &text) == nil {
		progress = text // a string that names a position stands for itself
	}
	var answer []byte
	err := a.tx.QueryRow(ctx, a.h.q(`SELECT SCHEMA.ping($1, $2, progress => nullif($3::text, ''),
		checkpoint => nullif($4::text, '')::jsonb, message => nullif($5::text, ''),
		next_within_s => nullif($6::double precision, 0))`),
		int64(id), int64(f), progress, string(p.Checkpoint), p.Message, p.NextWithin.Seconds()).Scan(&answer)
	if err != nil {
		return nil, err
	}
	var reply struct {
		Counted   bool    `json:"counted"`
		Cancel    bool    `json:"cancel"`
		Reason    string  `json:"reason"`
		Remaining float64 `json:"remaining_s"`
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return nil, err
	}
	return &store.PingReply{
		Answer: store.Applied, Counted: reply.Counted, Cancel: reply.Cancel, Reason: reply.Reason,
		Remaining: time.Duration(reply.Remaining * float64(time.Second)),
	}, nil
}

func (a *transaction) Cancel(ctx context.Context, id task.ID, by string) (c store.Became, err error) {
	err = a.tx.QueryRow(ctx, a.h.q(`SELECT SCHEMA.cancel($1, $2)`), int64(id), by).Scan((*string)(&c))
	return c, err
}

func (a *transaction) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (task.Fence, error) {
	var fence *int64
	err := a.tx.QueryRow(ctx, a.h.q(`SELECT SCHEMA.acquire($1, $2, $3)`), name, holder, ttl).Scan(&fence)
	if err != nil || fence == nil {
		return 0, err
	}
	return task.Fence(*fence), nil
}

func (a *transaction) RenewLease(ctx context.Context, name string, f task.Fence) error {
	_, err := a.tx.Exec(ctx, a.h.q(`SELECT SCHEMA.renew_lease($1, $2)`), name, int64(f))
	return err
}

func (a *transaction) ReleaseLease(ctx context.Context, name string, f task.Fence) error {
	_, err := a.tx.Exec(ctx, a.h.q(`SELECT SCHEMA.release_lease($1, $2)`), name, int64(f))
	return err
}

func (a *transaction) HoldLease(ctx context.Context, name string, f task.Fence) error {
	_, err := a.tx.Exec(ctx, a.h.q(`SELECT SCHEMA.hold_lease($1, $2)`), name, int64(f))
	return err
}

func (h *harness) NamedLeases(t testing.TB) (all []store.NamedLease) {
	t.Helper()
	conn, end := h.connections.connection(t, h.asApp)
	defer end()
	rows, err := conn.Query(t.Context(), h.q(`SELECT name, holder, fence, acquired_at, expires_at FROM SCHEMA.leases ORDER BY name`))
	require.NoError(t, err)
	var l store.NamedLease
	_, err = pgx.ForEachRow(rows, []any{&l.Name, &l.Holder, (*int64)(&l.Fence), &l.AcquiredAt, &l.ExpiresAt}, func() error {
		all = append(all, l)
		return nil
	})
	require.NoError(t, err)
	return all
}

func (a *transaction) Commit(ctx context.Context) error {
	defer a.end()
	return a.tx.Commit(ctx)
}

func (a *transaction) Rollback(ctx context.Context) error {
	defer a.end()
	if err := a.tx.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	return nil
}
