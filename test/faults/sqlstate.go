//go:build linux

package faults

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// answered tells whether the server has said no: then nothing has happened. Every other error leaves that open.
func answered(err error) bool {
	var e *pgconn.PgError
	// Class 57 is the server's own end, which may come after the commit and before its answer.
	return errors.As(err, &e) && e.Code[:2] != "57"
}

// codeGone is what hold and complete raise where the row is not held with that fence any more.
const codeGone = "LH410"

// raised tells whether one of Leasehold's functions has refused, rather than the server failed.
func raised(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == codeGone
}
