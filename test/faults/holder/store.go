package main

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver

	"github.com/leasehold/leasehold/test/faults/effect"
)

// open returns a store, which connects when it is asked.
func open(url string) store {
	path, ok := strings.CutPrefix(url, "sqlite:")
	if !ok {
		return &postgres{url: url}
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(1000)")
	if err != nil {
		exit(err)
	}
	return &lite{db}
}

// postgres is a connection. One on which a call was cut off is not used again.
type postgres struct {
	url  string
	conn *pgx.Conn
}

// connected returns a connection. Without one nothing has happened.
func (p *postgres) connected(ctx context.Context) (*pgx.Conn, error) {
	if p.conn != nil && !p.conn.IsClosed() {
		return p.conn, nil
	}
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return nil, effect.Local{Err: err}
	}
	p.conn = conn
	return conn, nil
}

func (p *postgres) acquire(ctx context.Context, name, holder string, ttl time.Duration) (int64, error) {
	conn, err := p.connected(ctx)
	if err != nil {
		return 0, err
	}
	var fence *int64
	err = conn.QueryRow(ctx, `SELECT leasehold.acquire($1, $2, $3::interval)`, name, holder, ttl.String()).Scan(&fence)
	if err != nil || fence == nil {
		return 0, err
	}
	return *fence, nil
}

func (p *postgres) renew(ctx context.Context, name string, fence int64) error {
	return p.exec(ctx, `SELECT leasehold.renew_lease($1, $2)`, name, fence)
}

func (p *postgres) release(ctx context.Context, name string, fence int64) error {
	return p.exec(ctx, `SELECT leasehold.release_lease($1, $2)`, name, fence)
}

func (p *postgres) exec(ctx context.Context, text string, args ...any) error {
	conn, err := p.connected(ctx)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, text, args...)
	return err
}

func (p *postgres) write(ctx context.Context, name, holder string, fence int64, open time.Duration) error {
	conn, err := p.connected(ctx)
	if err != nil {
		return err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return effect.Local{Err: err} // nothing was written yet
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, `SELECT leasehold.hold_lease($1, $2)`, name, fence); err != nil {
		return uncommitted(err)
	}
	wait(ctx, open)
	if _, err := tx.Exec(ctx, `INSERT INTO lease_step (name, fence, holder, what) VALUES ($1, $2, $3, 'effect')`, name, fence, holder); err != nil {
		return uncommitted(err)
	}
	return tx.Commit(ctx)
}

// uncommitted is an error before the COMMIT: nothing has happened.
func uncommitted(err error) error {
	if effect.Answered(err) {
		return err
	}
	return effect.Local{Err: err}
}

// lite is a SQLite file. Each error of it says that nothing has happened.
type lite struct{ db *sql.DB }

func (l *lite) acquire(ctx context.Context, name, holder string, ttl time.Duration) (fence int64, err error) {
	err = l.in(ctx, func(tx *sql.Tx) error {
		const ask, read = `INSERT INTO acquire (name, holder, ttl_s) VALUES (?, ?, ?)`, `SELECT fence FROM acquire WHERE name = ? AND holder = ?`
		if _, err := tx.ExecContext(ctx, ask, name, holder, ttl.Seconds()); err != nil {
			return err
		}
		err := tx.QueryRowContext(ctx, read, name, holder).Scan(&fence)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return fence, err
}

func (l *lite) renew(ctx context.Context, name string, fence int64) error {
	return l.insert(ctx, `INSERT INTO renew_lease (name, fence) VALUES (?, ?)`, name, fence)
}

func (l *lite) release(ctx context.Context, name string, fence int64) error {
	return l.insert(ctx, `INSERT INTO release_lease (name, fence) VALUES (?, ?)`, name, fence)
}

func (l *lite) insert(ctx context.Context, text, name string, fence int64) error {
	return l.in(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, text, name, fence)
		return err
	})
}

// write does not keep the transaction open: all others wait to write.
func (l *lite) write(ctx context.Context, name, holder string, fence int64, _ time.Duration) error {
	return l.in(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO hold_lease (name, fence) VALUES (?, ?)`, name, fence); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO lease_step (name, fence, holder, what) VALUES (?, ?, ?, 'effect')`, name, fence, holder)
		return err
	})
}

// in runs a transaction that may write.
func (l *lite) in(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return effect.Local{Err: err}
	}
	defer func() { _ = tx.Rollback() }()
	if err := do(tx); err != nil {
		return effect.Local{Err: err}
	}
	if err := tx.Commit(); err != nil {
		return effect.Local{Err: err}
	}
	return nil
}
