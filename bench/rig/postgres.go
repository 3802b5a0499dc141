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
	number     int  // of the version: 150018
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
		current_setting('shared_preload_libraries'), current_setting('server_version_num')::integer`,
	).Scan(&file, &p.Version, &p.Settings, &preloaded, &p.number)
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
	Name  string
	url   string
	claim string // a LIKE pattern that the texts of the contender's claims match; "": not asked for
	p     *Postgres
}

// Create makes a database, after a checkpoint: no other comes before the run is over, and none of its pages has to be
// written whole into the log because of one. It begins as a copy of the template, where one is named.
func (p *Postgres) Create(ctx context.Context, template string) (*Database, error) {
	name := "bench_" + strconv.FormatInt(time.Now().UnixNano(), 36)
	create := `CREATE DATABASE ` + name
	if template != "" {
		create += ` TEMPLATE ` + template
		if p.number >= 150000 {
			create += ` STRATEGY file_copy` // the other way writes all of it to the log
		}
	}
	for _, sql := range []string{create, `CHECKPOINT`} {
		if _, err := p.admin.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("make a database: %w", err)
		}
	}
	u := *p.url
	u.Path = "/" + name
	return &Database{Name: name, url: u.String(), p: p}, nil
}

// URL is how processes connect.
func (d *Database) URL() string { return d.url }

// Drop drops it.
func (d *Database) Drop(ctx context.Context) error {
	_, err := d.p.admin.Exec(ctx, `DROP DATABASE `+d.Name+` WITH (FORCE)`)
	return err
}

// Through is the database's URL by way of a pooler, whose own URL has the parameters that it needs.
func (d *Database) Through(pooler string) (string, error) {
	u, err := url.Parse(pooler)
	if err != nil {
		return "", fmt.Errorf("the pooler's URL: %w", err)
	}
	u.Path = "/" + d.Name
	return u.String(), nil
}

// Connect connects to it.
func (d *Database) Connect(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, d.url) }

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

// Exec runs statements, each in a transaction of its own.
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

// CPU reads what the server has used.
func (p *Postgres) CPU() (float64, error) { return TreeCPU(p.pid) }

// Quiet waits until no session is connected to the database: sessions report what they did when they end.
func (d *Database) Quiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var n int
		if err := d.p.admin.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity 
			WHERE datname = $1 AND backend_type = 'client backend' AND application_name <> $2`, d.Name, holder).Scan(&n); err != nil {
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

// Read reads the counters once the database is Quiet.
func (d *Database) Read(ctx context.Context) (Counters, error) {
	if err := d.Quiet(ctx); err != nil {
		return Counters{}, err
	}
	return d.Peek(ctx)
}

// Peek reads the counters at once. What sessions that are still there have committed may not be counted yet.
func (d *Database) Peek(ctx context.Context) (c Counters, err error) {
	err = d.p.admin.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint, xact_commit FROM pg_stat_database WHERE datname = $1`,
		d.Name).Scan(&c.WAL, &c.Commits)
	if err != nil {
		return c, fmt.Errorf("read the server's counters: %w", err)
	}
	c.Statements = -1
	if d.p.statements {
		err = d.p.admin.QueryRow(ctx, `SELECT coalesce(sum(calls), 0)::bigint,
				coalesce(sum(total_exec_time) FILTER (WHERE query LIKE $2), 0) / 1000, coalesce(sum(rows) FILTER (WHERE query LIKE $2), 0)::bigint
			FROM pg_stat_statements WHERE toplevel AND dbid = (SELECT oid FROM pg_database WHERE datname = $1)`, d.Name, d.claim,
		).Scan(&c.Statements, &c.ClaimTime, &c.ClaimRows)
		if err != nil {
			return c, fmt.Errorf("read the server's counters: %w", err)
		}
	}
	c.CPU, err = d.p.CPU()
	return c, err
}

// Connections is how many clients are connected to the database.
func (d *Database) Connections(ctx context.Context) (n int, err error) {
	err = d.p.admin.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'`, d.Name).Scan(&n)
	return n, err
}

// holder is the name of a session that stays while others come and go.
const holder = "bench holder"

// HoldSnapshot begins a transaction on a connection of its own that sees the database as it is now, and leaves it idle
// until release is called.
func (d *Database) HoldSnapshot(ctx context.Context) (release func() error, err error) {
	cfg, err := pgx.ParseConfig(d.url)
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["application_name"] = holder
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	release = func() error { return conn.Close(context.WithoutCancel(ctx)) }
	for _, sql := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT count(*) FROM pg_class`} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, errors.Join(err, release())
		}
	}
	return release, nil
}
