package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// keepMaxPayload has the table's bound be what is set, whatever the steps just applied have made of it.
func (m migrator) keepMaxPayload(ctx context.Context, tx pgx.Tx) error {
	if err := exec(ctx, tx, m.s.sql.KeepMaxPayload); err != nil {
		return fmt.Errorf("set the bound on payloads: %w", err)
	}
	return nil
}

// MaxPayload reads the bound.
func (m migrator) MaxPayload(ctx context.Context) (bytes int64, err error) {
	err = m.s.do(ctx, "read the bound on payloads", func(ctx context.Context, c *pgx.Conn) error {
		err := queryRow(ctx, c, m.s.sql.MaxPayload).Scan(&bytes)
		if errors.Is(err, pgx.ErrNoRows) || missing(err) {
			return nil
		}
		return err
	})
	return bytes, err
}

// SetMaxPayload changes the bound. It takes the table for itself for a moment.
func (m migrator) SetMaxPayload(ctx context.Context, bytes int64) error {
	if err := store.CheckMaxPayload(bytes); err != nil {
		return err
	}
	return m.s.do(ctx, "set the bound on payloads", func(ctx context.Context, c *pgx.Conn) error {
		err := exec(ctx, c, m.s.sql.SetMaxPayload, arg("bytes", bytes))
		switch {
		case code(err) == codeNoLock:
			return fmt.Errorf("another transaction keeps the table task, and nothing has changed: "+
				"end it (pg_stat_activity, pg_locks), or try again: %w", err)
		case code(err) == codeNoFunc, missing(err):
			return cmp.Or(m.s.checkSchema(ctx, c), err)
		}
		return err
	})
}
