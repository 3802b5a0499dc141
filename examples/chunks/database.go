package main

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver
)

//go:embed schema.sql
var schema string

// Events that are added while the others are processed.
const (
	addEvery = 100 * time.Millisecond
	addRows  = 100 // each time
	lateRows = 500
)

// database is the application's, which the store is not in.
type database struct {
	*sql.DB
	highest int64        // id; only one adds events
	total   atomic.Int64 // events
}

// openFile opens a SQLite file.
func openFile(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return db, nil
}

// fill adds so many events. The ids have gaps: a few everywhere, and a wide one in the middle.
func (d *database) fill(ctx context.Context, rows int) error {
	if _, err := d.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("make the application's tables: %w", err)
	}
	_, err := d.ExecContext(ctx, `
INSERT INTO event (id)
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $1)
SELECT n * 5 + n * 7919 % 4 + CASE WHEN n * 2 > $1 THEN 500000000 ELSE 0 END FROM numbers`, rows)
	if err != nil {
		return fmt.Errorf("fill the table: %w", err)
	}
	d.total.Store(int64(rows))
	return d.QueryRowContext(ctx, `SELECT max(id) FROM event`).Scan(&d.highest)
}

// add adds events behind the others, also with gaps, until ctx ends.
func (d *database) add(ctx context.Context) error {
	tick := time.NewTicker(addEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		// What has begun is also counted.
		_, err := d.ExecContext(context.WithoutCancel(ctx), `
INSERT INTO event (id)
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $1)
SELECT $2 + n * 3 FROM numbers`, addRows, d.highest)
		if err != nil {
			return fmt.Errorf("add events: %w", err)
		}
		d.highest += addRows * 3
		d.total.Add(addRows)
	}
}

// addLate adds events with ids in the wide gap, which is far below the highest id.
func (d *database) addLate(ctx context.Context) error {
	_, err := d.ExecContext(ctx, `
INSERT INTO event (id)
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $1)
SELECT 500000000 - n FROM numbers`, lateRows)
	if err != nil {
		return fmt.Errorf("add late events: %w", err)
	}
	d.total.Add(lateRows)
	return nil
}

// adding is the addition of events, in the background.
type adding struct {
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // valid then
}

// startAdding adds events until stop is called.
func (d *database) startAdding(ctx context.Context) *adding {
	ctx, cancel := context.WithCancel(ctx)
	a := &adding{cancel: cancel, ended: make(chan struct{})}
	go func() { // ends when stop is called, which waits for it
		defer close(a.ended)
		a.err = d.add(ctx)
	}()
	return a
}

func (a *adding) stop() error {
	a.cancel()
	<-a.ended
	return a.err
}

// number asks a database for a number.
func number(ctx context.Context, db *sql.DB, query string) (n int64, err error) {
	if err = db.QueryRowContext(ctx, query).Scan(&n); err != nil {
		err = errors.Join(fmt.Errorf("%s", query), err)
	}
	return n, err
}
