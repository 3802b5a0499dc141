package rig

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Variable names the server's address: test/with-postgres sets it.
const Variable = "LEASEHOLD_TEST_POSTGRES"

// Postgres is the server that everything is measured on.
type Postgres struct {
	url        *url.URL
	admin      *pgx.Conn
	pid        int
	statements bool // pg_stat_statements is there
	Version    string
	Settings   string // those that matter, for the report
}

// Connect connects to the server as its superuser, and finds its processes.
func Connect(ctx context.Context, address string) (*Postgres, error) {
	u, err := url.Parse(address)
	if err != nil || address == "" {
		return nil, fmt.Errorf("%s has to be the postgres:// URL of a server (make bench starts one): %q", Variable, address)
	}
	p := &Postgres{url: u}
	if p.admin, err = pgx.Connect(ctx, address); err != nil {
		return nil, err
	}
	var file, preloaded string
	err = p.admin.QueryRow(ctx, `SELECT pg_read_file('postmaster.pid'), current_setting('server_version'),
		concat_ws(', ', 'fsync ' || current_setting('fsync'), 'synchronous_commit ' || current_setting('synchronous_commit'),
			'shared_buffers ' || current_setting('shared_buffers')),
		current_setting('shared_preload_libraries')`).Scan(&file, &p.Version, &p.Settings, &preloaded)
	if err != nil {
		return nil, fmt.Errorf("ask the server about itself: %w", err)
	}
	first, _, _ := strings.Cut(file, "\n")
	if p.pid, err = strconv.Atoi(first); err != nil {
		return nil, fmt.Errorf("find the server's process: %w", err)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/stat", p.pid)); err != nil {
		return nil, fmt.Errorf("the server has to run on this machine: %w", err)
	}
	if strings.Contains(preloaded, "pg_stat_statements") {
		_, err = p.admin.Exec(ctx, `CREATE EXTENSION IF NOT EXISTS pg_stat_statements`)
		p.statements = err == nil
	}
	return p, err
}

// Close disconnects.
func (p *Postgres) Close(ctx context.Context) error { return p.admin.Close(ctx) }

// Database is a fresh one, for one run.
type Database struct {
	Name string
	URL  string
	p    *Postgres
}

// Create makes a database, after a checkpoint: no other comes before the run is over, and none of its pages has to be
// written whole into the log because of one.
func (p *Postgres) Create(ctx context.Context) (*Database, error) {
	name := "bench_" + strconv.FormatInt(time.Now().UnixNano(), 36)
	for _, sql := range []string{`CREATE DATABASE ` + name, `CHECKPOINT`} {
		if _, err := p.admin.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("make a database: %w", err)
		}
	}
	u := *p.url
	u.Path = "/" + name
	return &Database{Name: name, URL: u.String(), p: p}, nil
}

// Drop drops it.
func (d *Database) Drop(ctx context.Context) error {
	_, err := d.p.admin.Exec(ctx, `DROP DATABASE `+d.Name+` WITH (FORCE)`)
	return err
}

// Connect connects to it.
func (d *Database) Connect(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, d.URL) }

// Count runs a query that gives one number.
func (d *Database) Count(ctx context.Context, sql string, args ...any) (n int64, err error) {
	conn, err := d.Connect(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	err = conn.QueryRow(ctx, sql, args...).Scan(&n)
	return n, err
}

// Exec runs statements, each by itself.
func (d *Database) Exec(ctx context.Context, statements ...string) error {
	conn, err := d.Connect(ctx)
	if err != nil {
		return err
	}
	for _, sql := range statements {
		if _, err = conn.Exec(ctx, sql); err != nil {
			err = fmt.Errorf("%s: %w", sql, err)
			break
		}
	}
	return errors.Join(err, conn.Close(ctx))
}

// Counters are the server's, at one moment.
type Counters struct {
	CPU        float64 // seconds, of all the server's processes
	WAL        int64   // bytes written so far
	Commits    int64   // of the database
	Statements int64   // of the database; -1: not known
}

// Sub gives what came since.
func (c Counters) Sub(before Counters) Counters {
	return Counters{c.CPU - before.CPU, c.WAL - before.WAL, c.Commits - before.Commits, c.Statements - before.Statements}
}

// CPU reads what the server has used.
func (p *Postgres) CPU() (float64, error) { return TreeCPU(p.pid) }

// Quiet waits until nobody is connected to the database: sessions report what they did when they end.
func (d *Database) Quiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var n int
		if err := d.p.admin.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'`,
			d.Name).Scan(&n); err != nil {
			return fmt.Errorf("wait until the database is left alone: %w", err)
		}
		if n == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until the database is left alone: %d are there: %w", n, ctx.Err())
		case <-tick.C:
		}
	}
}

// Read reads the counters of a database that is Quiet.
func (d *Database) Read(ctx context.Context) (c Counters, err error) {
	if err := d.Quiet(ctx); err != nil {
		return c, err
	}
	err = d.p.admin.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint, xact_commit FROM pg_stat_database WHERE datname = $1`,
		d.Name).Scan(&c.WAL, &c.Commits)
	if err != nil {
		return c, fmt.Errorf("read the server's counters: %w", err)
	}
	c.Statements = -1
	if d.p.statements {
		err = d.p.admin.QueryRow(ctx, `SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements
			WHERE toplevel AND dbid = (SELECT oid FROM pg_database WHERE datname = $1)`, d.Name).Scan(&c.Statements)
		if err != nil {
			return c, fmt.Errorf("read the server's counters: %w", err)
		}
	}
	c.CPU, err = d.p.CPU()
	return c, err
}
