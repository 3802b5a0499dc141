package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/test/faults/effect"
	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/faults/script"
)

// queryTimeout bounds one query.
const queryTimeout = 10 * time.Second

// guarded makes the row's effect, or rolls it back, and returns how the attempt ends.
func (a *attempt) guarded(guard string) (how string) {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	conn, err := a.connect(ctx)
	if err != nil {
		return "failed"
	}
	defer func() { _ = conn.Close(ctx) }()
	t := a.envelope.Task
	done := effect.Make(ctx, conn, effect.Effect{
		ID: t.ID, Fence: t.Fence, Who: os.Getenv("WHO"), Guard: guard, Rollback: t.Phase == script.Rollback, Result: a.envelope.Result(),
	})
	switch {
	case done.Unknown && done.Made:
		a.report(history.Effect, history.NoReply)
	case done.Refused:
		a.report(history.Refused, done.Err.Error())
	case done.Made:
		a.report(history.Effect, "")
	}
	if done.Err != nil {
		return "failed"
	}
	return "succeeded"
}

// ask answers a check: whether there is anything left to do.
func (a *attempt) ask() (how, result string) {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	conn, err := a.connect(ctx)
	if err != nil {
		return "failed", ""
	}
	defer func() { _ = conn.Close(ctx) }()
	stands, err := effect.Stands(ctx, conn, a.envelope.Task.ID)
	switch {
	case err != nil:
		return "failed", ""
	case stands:
		return history.Done, `{"done": true}`
	}
	return "open", `{"done": false}`
}

func (a *attempt) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return conn, err
}
