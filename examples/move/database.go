package main

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver for PostgreSQL
	_ "modernc.org/sqlite"             // the driver for SQLite
)

//go:embed schema.sql
var schema string

// database is the application's, and the store as well: that is why an effect and what becomes of its task can be one
// commit.
type database struct {
	*sql.DB
	dialect
}

// dialect is all that Leasehold asks of an application in SQL, as one of the two stores wants it.
type dialect struct {
	batch, tasks   string // make a batch, and its tasks out of the plan
	hold, complete string
}

func onPostgres() dialect {
	return dialect{
		batch: `
INSERT INTO leasehold.batch (name, on_failure, finish_type)
VALUES ($1, 'rollback', 'move.finished') RETURNING id`,
		tasks: `
INSERT INTO leasehold.task (type, batch_id, payload, rollback_payload)
SELECT 'service.move', $1::bigint,
       jsonb_build_object('service', service, 'to', to_zone),
       jsonb_build_object('service', service, 'zone', zone, 'address', address)
FROM plan ORDER BY service`,
		hold:     `SELECT leasehold.hold($1, $2)`,
		complete: `SELECT leasehold.complete($1, $2, $3)`,
	}
}

func onSQLite() dialect {
	return dialect{
		batch: `
INSERT INTO batch (name, on_failure, finish_type)
VALUES ($1, 'rollback', 'move.finished') RETURNING id`,
		tasks: `
INSERT INTO task (type, batch_id, payload, rollback_payload)
SELECT 'service.move', $1,
       json_object('service', service, 'to', to_zone),
       json_object('service', service, 'zone', zone, 'address', address)
FROM plan ORDER BY service`,
		hold:     `INSERT INTO hold (id, fence) VALUES ($1, $2)`,
		complete: `INSERT INTO complete (id, fence, result) VALUES ($1, $2, $3)`,
	}
}

// openDatabase opens postgres://… or sqlite:PATH.
func openDatabase(url string) (*database, error) {
	path, embedded := strings.CutPrefix(url, "sqlite:")
	if !embedded {
		db, err := sql.Open("pgx", url)
		if err != nil {
			return nil, fmt.Errorf("open the database: %w", err)
		}
		return &database{db, onPostgres()}, nil
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1) // SQLite has one writer: handlers wait for each other here rather than there
	return &database{db, onSQLite()}, nil
}

// inOne does something in one transaction, or nothing at all.
func (d *database) inOne(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// once makes one effect of a task. It and the task's completion are one commit, and only the attempt that holds the task
// can make it: so it happens exactly once, whatever becomes of the attempt and of its answer (docs/fencing.md).
func (d *database) once(ctx context.Context, id, fence int64, effect func(tx *sql.Tx) (result string, err error)) (result string, err error) {
	err = d.inOne(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, d.hold, id, fence); err != nil {
			return err
		}
		if result, err = effect(tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, d.complete, id, fence, result)
		return err
	})
	return result, err
}
