// Package rawfile is package raw on a SQLite file: one connection that writes, claims and settlements of a thousand
// rows, each a short transaction. It is the ceiling for anything that does the same work on such tables.
package rawfile

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold/leasehold/bench/work"
)

//go:embed schema.sql
var schemaSQL string

const (
	claimRows = 1000
	ahead     = 2 // claims that wait for workers
	lookEvery = time.Millisecond
	stamp     = "2006-01-02T15:04:05.000Z"

	claimSQL = `UPDATE task SET state = 'running', session = 1, claim = ?1, fence = fence + 1, attempt = attempt + 1,
		claimed_at = ?2, lease_until = ?3
	WHERE id IN (SELECT id FROM task INDEXED BY task_due
		WHERE state = 'pending' AND type = ?4 AND ifnull(region, '') = '' AND priority = 0 AND run_at <= ?2 ORDER BY run_at, id LIMIT ?5)
	RETURNING id, payload`
	archiveSQL = `INSERT INTO archive
	SELECT id, type, 'succeeded', priority, region, key, run_at, payload, created_at, attempt, fence + 1, session, claim, lease_until,
		claimed_at, task.claimed_at, ?2
	FROM task WHERE id IN (SELECT value FROM json_each(?1)) AND session = 1 AND state = 'running'`
	deleteSQL = `DELETE FROM task WHERE id IN (SELECT value FROM json_each(?1))`
)

func workers(j work.Job) int {
	switch {
	case j.Workers > 0:
		return j.Workers
	case j.Kind == work.HTTP:
		return 256
	default:
		return 4
	}
}

// Contender is the raw loop on a file.
type Contender struct{}

// Setup makes the tables and inserts.
func (Contender) Setup(ctx context.Context, j work.Job) (err error) {
	f, err := work.OpenFile(j.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.DB.ExecContext(ctx, schemaSQL); err != nil {
		return err
	}
	return f.Insert(ctx, j.Rows)
}

type row struct {
	id      int64
	payload []byte
}

type engine struct {
	job  work.Job
	doer *work.Doer
	look *work.File
	file *work.File

	turn  sync.Mutex // to use conn
	conn  *sql.Conn
	stmts map[string]*sql.Stmt

	stop context.CancelFunc
	all  sync.WaitGroup
	rows chan []row
	done chan int64
	mu   sync.Mutex
	err  error
}

// Open opens the file and prepares the statements.
func (Contender) Open(ctx context.Context, j work.Job) (work.Engine, error) {
	e := &engine{
		job: j, doer: work.NewDoer(j, workers(j)), stmts: map[string]*sql.Stmt{},
		rows: make(chan []row, ahead), done: make(chan int64, 4*claimRows),
	}
	var err error
	if e.look, err = work.OpenFile(j.URL); err != nil {
		return nil, err
	}
	if e.file, err = work.OpenFile(j.URL); err != nil {
		return nil, err
	}
	if e.conn, err = e.file.DB.Conn(ctx); err != nil {
		return nil, err
	}
	err = e.prepare(ctx)
	return e, err
}

// prepare prepares the statements.
func (e *engine) prepare(ctx context.Context) error {
	for _, text := range []string{"BEGIN IMMEDIATE", "COMMIT", claimSQL, archiveSQL, deleteSQL} {
		stmt, err := e.conn.PrepareContext(ctx, text) //nolint:sqlclosecheck // Stop closes it
		if err != nil {
			return fmt.Errorf("prepare %s: %w", text, err)
		}
		e.stmts[text] = stmt
	}
	return nil
}

func (e *engine) Doer() *work.Doer { return e.doer }
func (e *engine) Version() string  { return "" }

func (e *engine) Start(ctx context.Context) error {
	ctx, e.stop = context.WithCancel(ctx)
	var working sync.WaitGroup
	e.all.Go(func() { e.note(e.claim(ctx)) })
	each := make(chan row, claimRows)
	e.all.Go(func() {
		defer close(each)
		for rows := range e.rows {
			for _, r := range rows {
				each <- r
			}
		}
	})
	for range workers(e.job) {
		working.Go(func() {
			for r := range each {
				e.note(e.doer.Do(ctx, r.id, r.payload))
				e.done <- r.id
			}
		})
	}
	e.all.Go(func() { working.Wait(); close(e.done) })
	e.all.Go(func() { e.note(e.settle(context.WithoutCancel(ctx))) })
	return nil
}

// note keeps the first error; the run fails with it.
func (e *engine) note(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil && err != nil && !errors.Is(err, context.Canceled) {
		e.err = err
	}
}

// write runs statements in one transaction.
func (e *engine) write(ctx context.Context, do func() error) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	if _, err := e.stmts["BEGIN IMMEDIATE"].ExecContext(ctx); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	_, err := e.stmts["COMMIT"].ExecContext(ctx)
	return err
}

// claim claims until ctx ends. With Latency it looks every millisecond whether another connection has written.
func (e *engine) claim(ctx context.Context) error {
	defer close(e.rows)
	whole := context.WithoutCancel(ctx) // a transaction is carried to its end
	seen := int64(-1)
	for number := 1; ctx.Err() == nil; number++ {
		if e.job.Kind == work.Latency {
			if err := e.awaitWrite(ctx, &seen); err != nil {
				return err
			}
		}
		var rows []row
		err := e.write(whole, func() (err error) {
			rows, err = e.claimSome(whole, number)
			return err
		})
		switch {
		case err != nil:
			return fmt.Errorf("claim: %w", err)
		case len(rows) > 0:
			e.rows <- rows
		case e.job.Kind != work.Latency:
			return nil
		}
	}
	return nil
}

func (e *engine) claimSome(ctx context.Context, number int) (rows []row, err error) {
	now := time.Now().UTC()
	found, err := e.stmts[claimSQL].QueryContext(ctx, number, now.Format(stamp), now.Add(30*time.Second).Format(stamp), work.TaskType, claimRows)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() {
		var r row
		if err := found.Scan(&r.id, &r.payload); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, found.Err()
}

// awaitWrite waits until another connection has written.
func (e *engine) awaitWrite(ctx context.Context, seen *int64) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		var version int64
		e.turn.Lock()
		err := e.conn.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&version)
		e.turn.Unlock()
		if err != nil || version != *seen {
			*seen = version
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// settle settles what is done, as much as there is at a time, until all workers have ended.
func (e *engine) settle(ctx context.Context) error {
	ids := make([]int64, 0, claimRows)
	for id := range e.done {
		ids = append(ids[:0], id)
	more:
		for len(ids) < claimRows {
			select {
			case id, ok := <-e.done:
				if !ok {
					break more
				}
				ids = append(ids, id)
			default:
				break more
			}
		}
		list, err := json.Marshal(ids)
		if err != nil {
			return err
		}
		err = e.write(ctx, func() error {
			if _, err := e.stmts[archiveSQL].ExecContext(ctx, string(list), time.Now().UTC().Format(stamp)); err != nil {
				return err
			}
			_, err := e.stmts[deleteSQL].ExecContext(ctx, string(list))
			return err
		})
		if err != nil {
			return fmt.Errorf("settle: %w", err)
		}
	}
	return nil
}

func (e *engine) Left(ctx context.Context) (left bool, err error) {
	e.mu.Lock()
	err = e.err
	e.mu.Unlock()
	if err != nil {
		return false, err
	}
	n, err := e.look.Count(ctx, `SELECT EXISTS (SELECT 1 FROM task)`)
	return n > 0, err
}

func (e *engine) Stop(context.Context) error {
	e.stop()
	e.all.Wait()
	for _, stmt := range e.stmts {
		e.note(stmt.Close())
	}
	return errors.Join(e.err, e.conn.Close(), e.file.Close(), e.look.Close())
}
