package leasehold

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/bench/work"
	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/sqlite"
)

// place is a store, with a way to see from outside what is in it.
type place interface {
	lease.Store
	poll.Store
	batch.Store
	Migrator() store.Migrator
	Ping(ctx context.Context) error
	// insert inserts rows that are due, as one batch or as tasks by themselves.
	insert(ctx context.Context, rows int, asBatch bool) error
	// insertTypes inserts the rows of work.Fair, all of them due at the same time.
	insertTypes(ctx context.Context, j work.Job) error
	// insertLocked inserts rows of which some have locks, or sequences.
	insertLocked(ctx context.Context, j work.Job) error
	// insertTenants inserts rows of many tenants.
	insertTenants(ctx context.Context, j work.Job) error
	// insertGraph inserts rows that wait for each other.
	insertGraph(ctx context.Context, j work.Job) error
	// left reports whether rows with an id above this one are there that are not finished.
	left(ctx context.Context, above int) (bool, error)
	// end closes all.
	end() error
}

func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// open opens the store that the job's URL names.
func open(ctx context.Context, j work.Job, cfg *config.Config) (place, error) {
	if strings.HasPrefix(j.URL, "sqlite:") {
		return openFile(ctx, j.URL)
	}
	look, err := pgx.ParseConfig(j.LookURL())
	if err != nil {
		return nil, err
	}
	look.RuntimeParams["enable_seqscan"] = "off" // a look goes by the primary key, whatever else is there
	p := &server{}
	if p.look, err = pgx.ConnectConfig(ctx, look); err != nil {
		return nil, err
	}
	p.Store, err = postgres.Open(ctx, postgres.Options{
		URL: cfg.Store.URL, Schema: cfg.Store.Schema, Connections: cfg.Store.Connections, Notify: cfg.Store.Notify, Log: logger(),
	})
	return p, err
}

// server is a Postgres.
type server struct {
	*postgres.Store
	look *pgx.Conn
}

func (p *server) insert(ctx context.Context, rows int, asBatch bool) error {
	into := `INSERT INTO leasehold.task (type, payload) SELECT $1, $2::jsonb FROM generate_series(1, $3::integer)`
	if asBatch {
		into = `WITH b AS (INSERT INTO leasehold.batch (name) VALUES ('bench') RETURNING id)
			INSERT INTO leasehold.task (type, payload, batch_id) SELECT $1, $2::jsonb, b.id FROM b, generate_series(1, $3::integer)`
	}
	_, err := p.look.Exec(ctx, into, work.TaskType, work.Payload, rows)
	if err == nil {
		_, err = p.look.Exec(ctx, `VACUUM ANALYZE leasehold.task`)
	}
	return err
}

func (p *server) insertTypes(ctx context.Context, j work.Job) error {
	types := make([]string, work.FairTypes)
	for i := range types {
		types[i] = work.FairType(i)
	}
	const (
		hung   = `INSERT INTO leasehold.task (type, payload) SELECT $1, $2::jsonb FROM generate_series(1, $3::integer)`
		others = `INSERT INTO leasehold.task (type, payload)
			SELECT ($1::text[])[1 + n % cardinality($1)], $2::jsonb FROM generate_series(1, $3::integer) AS n`
	)
	if _, err := p.look.Exec(ctx, hung, work.HungType, work.Payload, j.Hung); err != nil {
		return err
	}
	if _, err := p.look.Exec(ctx, others, types, work.Payload, j.Rows); err != nil {
		return err
	}
	_, err := p.look.Exec(ctx, `VACUUM ANALYZE leasehold.task`)
	return err
}

func (p *server) insertLocked(ctx context.Context, j work.Job) error {
	column := "lock"
	if j.Sequences {
		column = "sequence"
	}
	var (
		waiting = `INSERT INTO leasehold.task (type, payload, ` + column + `, held)
			SELECT $1, $2::jsonb, 'waiting-' || n % $4::integer, '` + column + `' FROM generate_series(1, $3::integer) AS n`
		rows = `INSERT INTO leasehold.task (type, payload, ` + column + `)
			SELECT $1, $2::jsonb, CASE WHEN n % $5::integer = 0 THEN 'lock-' || n / $5::integer % $4::integer END
			FROM generate_series(1, $3::integer) AS n`
	)
	if _, err := p.look.Exec(ctx, waiting, work.TaskType, work.Payload, j.Waiting, j.Locks); err != nil {
		return err
	}
	if _, err := p.look.Exec(ctx, rows, work.TaskType, work.Payload, j.Rows, j.Locks, max(j.LockedEvery, 1)); err != nil {
		return err
	}
	_, err := p.look.Exec(ctx, `VACUUM ANALYZE leasehold.task`)
	return err
}

func (p *server) insertTenants(ctx context.Context, j work.Job) error {
	const rows = `INSERT INTO leasehold.task (type, payload, tenant)
		SELECT $1, $2::jsonb, 'tenant-' || n % $4::integer FROM generate_series(1, $3::integer) AS n`
	if _, err := p.look.Exec(ctx, rows, work.TaskType, work.Payload, j.Rows, j.Tenants); err != nil {
		return err
	}
	_, err := p.look.Exec(ctx, `VACUUM ANALYZE leasehold.task`)
	return err
}

func (p *server) insertGraph(ctx context.Context, j work.Job) error {
	text := map[work.Graph]string{
		work.FanOut: `WITH first AS (INSERT INTO leasehold.task (type, payload) VALUES ($1, $2::jsonb) RETURNING id)
			INSERT INTO leasehold.task (type, payload, after) SELECT $1, $2::jsonb, ARRAY[first.id] FROM first, generate_series(2, $3::integer)`,
		work.FanIn: `WITH rows AS (INSERT INTO leasehold.task (type, payload) SELECT $1, $2::jsonb FROM generate_series(2, $3::integer) RETURNING id)
			INSERT INTO leasehold.task (type, payload, after) SELECT $1, $2::jsonb, array_agg(rows.id) FROM rows`,
		work.Beside: `INSERT INTO leasehold.task (type, payload) SELECT $1, $2::jsonb FROM generate_series(1, $3::integer)`,
	}[j.Graph]
	if _, err := p.look.Exec(ctx, text, work.TaskType, work.Payload, j.Rows); err != nil {
		return err
	}
	_, err := p.look.Exec(ctx, `VACUUM ANALYZE leasehold.task`)
	return err
}

func (p *server) left(ctx context.Context, above int) (left bool, err error) {
	err = p.look.QueryRow(ctx, `SELECT EXISTS (SELECT FROM leasehold.task WHERE id > $1)`, above).Scan(&left)
	return left, err
}

func (p *server) end() error {
	p.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return p.look.Close(ctx)
}

// file is a SQLite file.
type file struct {
	*sqlite.Store
	look *work.File
}

func openFile(ctx context.Context, url string) (place, error) {
	path, err := sqlite.ParseURL(url)
	if err != nil {
		return nil, err
	}
	f := &file{}
	if f.Store, err = sqlite.Open(ctx, sqlite.Options{Path: path, Create: true, Log: logger()}); err != nil {
		return nil, err
	}
	f.look, err = work.OpenFile(url)
	return f, err
}

func (f *file) insert(ctx context.Context, rows int, asBatch bool) error {
	if asBatch {
		return errors.New("batches are not measured on files")
	}
	return f.look.Insert(ctx, rows)
}

func (f *file) insertTypes(context.Context, work.Job) error {
	return errors.New("types are not measured on files")
}

func (f *file) insertLocked(context.Context, work.Job) error {
	return errors.New("locks are not measured on files")
}

func (f *file) insertTenants(context.Context, work.Job) error {
	return errors.New("tenants are not measured on files")
}

func (f *file) insertGraph(context.Context, work.Job) error {
	return errors.New("graphs are not measured on files")
}

func (f *file) left(ctx context.Context, above int) (bool, error) {
	n, err := f.look.Count(ctx, `SELECT EXISTS (SELECT 1 FROM task WHERE id > ?)`, above)
	return n > 0, err
}

func (f *file) end() error { return errors.Join(f.look.Close(), f.Close()) }
