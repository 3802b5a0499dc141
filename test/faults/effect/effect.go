// Package effect makes and rolls back the effects of the fault suite's tasks, in the application's own table: each in one
// transaction with hold or complete, as docs/fencing.md says.
package effect

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/test/faults/history"
)

// Table makes the table of effects. One with phase rollback rolls back another, or none where rolls_back is 0.
const Table = `CREATE TABLE effect (
	serial bigint GENERATED ALWAYS AS IDENTITY, id bigint NOT NULL, fence bigint NOT NULL, phase text NOT NULL,
	rolls_back bigint NOT NULL, who text NOT NULL);
CREATE INDEX ON effect (id)`

// Effect is what an attempt is to make.
type Effect struct {
	ID, Fence int64
	Who       string
	Guard     string // history.Held or history.Completed
	Rollback  bool   // it is to undo what stands
	Result    string // that completes the task
}

// Made is what came of it.
type Made struct {
	Made    bool  // there is an effect of this attempt
	Refused bool  // the row is not this attempt's any more
	Unknown bool  // whether it is committed is not known
	Err     error // nil: it is committed
}

// Conn is a connection, or a pool of them.
type Conn interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// The effect of a task that stands: it was not rolled back.
const stands = `SELECT max(e.serial) AS serial FROM effect AS e
	WHERE e.id = $1 AND e.phase = '' AND NOT EXISTS (SELECT FROM effect AS u WHERE u.id = e.id AND u.rolls_back = e.serial)`

// An attempt with complete makes its effect whether one stands or not: no other can have made it before. One with hold may
// find the effect of an attempt whose reply was lost.
const (
	makeSQL = `INSERT INTO effect (id, fence, phase, rolls_back, who) SELECT $1::bigint, $2::bigint, '', 0, $3::text
		WHERE $4::boolean OR (` + stands + `) IS NULL`
	rollbackSQL = `INSERT INTO effect (id, fence, phase, rolls_back, who) SELECT $1::bigint, $2::bigint, 'rollback', coalesce(s.serial, 0), $3::text
		FROM (` + stands + `) AS s WHERE $4::boolean OR s.serial IS NOT NULL`
)

// Make makes an effect, or rolls one back.
func Make(ctx context.Context, conn Conn, e Effect) Made {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return Made{Err: err}
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if e.Guard == history.Held {
		_, err = tx.Exec(ctx, `SELECT leasehold.hold($1, $2)`, e.ID, e.Fence)
	} else {
		_, err = tx.Exec(ctx, `SELECT leasehold.complete($1, $2, $3)`, e.ID, e.Fence, e.Result)
	}
	if err != nil {
		return Made{Refused: Raised(err), Err: err}
	}
	sql := makeSQL
	if e.Rollback {
		sql = rollbackSQL
	}
	done, err := tx.Exec(ctx, sql, e.ID, e.Fence, e.Who, e.Guard == history.Completed)
	if err != nil {
		return Made{Err: err}
	}
	err = tx.Commit(ctx)
	unknown := err != nil && !Answered(err)
	return Made{Made: done.RowsAffected() == 1 && (err == nil || unknown), Unknown: unknown, Err: err}
}

// Stands reports whether a task's effect is there.
func Stands(ctx context.Context, conn Conn, id int64) (bool, error) {
	var serial *int64
	err := conn.QueryRow(ctx, stands, id).Scan(&serial)
	return serial != nil, err
}

// Local is an error of a database in the caller's own process. No reply can be lost on its way, so nothing has happened.
type Local struct{ Err error }

func (l Local) Error() string { return l.Err.Error() }

// Unwrap returns the database's error.
func (l Local) Unwrap() error { return l.Err }

// Answered reports whether the server has said no: then nothing has happened. Every other error leaves that open.
func Answered(err error) bool {
	if _, ok := errors.AsType[Local](err); ok {
		return true
	}
	var e *pgconn.PgError
	// Class 57 is the server's own end, which may come after the commit and before its answer.
	return errors.As(err, &e) && e.Code[:2] != "57"
}

// codeGone is what hold, complete and hold_lease raise where the row or lease is not held with that fence any more.
const codeGone = "LH410"

// textGone is what the views hold and complete of a SQLite store say then.
const textGone = "is not held with this fence any more"

// Raised reports whether one of Leasehold's functions has refused, rather than the server failed.
func Raised(err error) bool {
	if l, ok := errors.AsType[Local](err); ok {
		return strings.Contains(l.Error(), textGone)
	}
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == codeGone
}
