// Package postgres is the store on PostgreSQL, 14 and later. Each of the calls that agents live on is one statement
// over many rows, in a file of its own: claim.go, settle.go, renew.go, sweep.go, present.go. The tables are in schema.sql,
// the functions in functions/, the statements in queries/.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/store"
)

// Options say where the store is and how it is used.
type Options struct {
	// URL is a connection string as libpq takes it, URL or key=value, with pgx's additions: behind PgBouncer in
	// transaction mode before its version 1.21 add default_query_exec_mode=exec.
	URL string
	// Schema holds everything; "": leasehold.
	Schema string
	// Connections is the size of the pool; 0: 4. Listening takes one more, and session heartbeats another.
	Connections int
	// Notify: Listen listens, rather than just wait.
	Notify bool
	// Log gets what has no caller to be returned to; nil: slog.Default().
	Log *slog.Logger
	// Report receives how listening for notifications goes, which has no caller: a connection that was lost, or nil once it
	// listens; nil: that is logged.
	Report func(err error)
	// Fail, for tests, is called at each failpoint; its error ends the call there as a crash would.
	Fail func(point string) error

	sql   *statements // for tests: compiled for this schema; nil: Open compiles them
	pools *pools      // for tests: to use, and to leave open; nil: the store has its own
}

// How long things may take. The server ends a statement after statementTimeout; the client gives it up somewhat later,
// for the case that the server is not there any more.
const (
	statementTimeout = 10 * time.Second
	callTimeout      = statementTimeout + 5*time.Second
	migrateTimeout   = 10 * time.Minute
	maintainTimeout  = 10 * time.Minute
	connectTimeout   = 5 * time.Second
	// cutAfter is what a statement under way still gets once its caller's context has ended. A statement that is cut
	// takes its connection with it, and leaves open whether it took effect.
	cutAfter = 2 * time.Second
)

// Store implements lease.Store, poll.Store, batch.Store, and what ops asks of a store. It is made by Open.
type Store struct {
	schema schema
	files  fs.FS // the schema's
	log    *slog.Logger
	notify bool
	report func(error)
	fail   func(point string) error

	*pools
	shared   bool // the pools are not the store's own
	sql      *statements
	lowWater *lowWater
	turns    *turns
	kept     recent  // rows of ours were kept
	followed recent  // likewise, while rows with a key were among them: those are kept by each transaction that has one follow
	counted  recent  // rows of batches, with a key or with a lock were claimed
	stored   *hashes // policies known to be in the store
	limits   limits
	waits    waits
	wanting  atomic.Int64 // the session that last wanted a place in a limit
	hasBook  atomic.Bool  // the schema's book of versions was there
}

// Open makes a store. It does not connect: the first call does, so an agent may start before its server.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Schema == "" {
		o.Schema = "leasehold"
	}
	if o.Connections == 0 {
		o.Connections = 4
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := &Store{
		schema: schema(o.Schema), files: schemaFiles, log: o.Log, notify: o.Notify, fail: o.Fail, lowWater: newLowWater(),
		turns: newTurns(), stored: newHashes(),
		waits: defaultWaits(),
	}
	s.report = o.Report
	if s.report == nil {
		s.report = s.logListening
	}
	if err := s.schema.check(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	var err error
	if s.sql = o.sql; s.sql == nil {
		s.sql, err = newStatements(s.schema)
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if s.pools, s.shared = o.pools, o.pools != nil; !s.shared {
		s.pools, err = newPools(ctx, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return s, nil
}

// pools are the connections of a store.
type pools struct {
	pool    *pgxpool.Pool
	heart   *pgxpool.Pool // one connection, for what must not wait behind slow calls: presence, and leases
	connect *connector
}

// newPools makes pools. It does not connect.
func newPools(ctx context.Context, o *Options) (p *pools, err error) {
	p = new(pools)
	if p.connect, err = newConnector(o.URL, o.Log); err != nil {
		return nil, err
	}
	if p.pool, err = p.connect.pool(ctx, o.Connections); err != nil {
		return nil, err
	}
	if p.heart, err = p.connect.pool(ctx, 1); err != nil {
		p.pool.Close()
		return nil, err
	}
	return p, nil
}

func (p *pools) close() {
	p.heart.Close()
	p.pool.Close()
}

// Close ends all connections. It waits for calls under way, each of which has a bound.
func (s *Store) Close() {
	if !s.shared {
		s.close()
	}
}

// Migrator changes the store's schema.
func (s *Store) Migrator() store.Migrator { return migrator{s} }

// do runs f on a connection of the pool, for as long as a call may take.
func (s *Store) do(ctx context.Context, what string, f func(context.Context, *pgx.Conn) error) error {
	return explain(s.with(ctx, s.pool, what, callTimeout, f))
}

// live is do for what keeps the session and its leases alive: it waits for no other call.
func (s *Store) live(ctx context.Context, what string, f func(context.Context, *pgx.Conn) error) error {
	return explain(s.with(ctx, s.heart, what, callTimeout, f))
}

// with runs f on a connection of a pool.
func (s *Store) with(
	ctx context.Context, pool *pgxpool.Pool, what string, limit time.Duration, f func(context.Context, *pgx.Conn) error,
) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	conn, err := s.acquire(ctx, pool)
	if err != nil {
		return fmt.Errorf("%s: %w", what, explain(err))
	}
	defer conn.Release()
	ctx, cancel := outlast(ctx, limit)
	defer cancel()
	if fault.Built {
		fault.Point("before " + what)
		defer fault.Point("after " + what)
	}
	if err := f(ctx, conn.Conn()); err != nil {
		if code(err) == codeReadOnly {
			// The server is a standby now, and would refuse every write for as long as we stayed with it.
			s.log.Debug("the server became read-only: all connections are dropped") // whose call failed reports that
			s.pool.Reset()
			s.heart.Reset()
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// acquire takes a connection from a pool. This wait ends with the caller's context, and within connectTimeout twice.
func (s *Store) acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil && s.connect.goPlain(err) {
		conn, err = pool.Acquire(ctx)
	}
	return conn, err
}

// outlast gives a context for statements: it lasts for limit, or until the parent's deadline, or until cutAfter past
// the parent's cancellation.
func outlast(parent context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), limit)
	undeadline := context.CancelFunc(func() {})
	if end, ok := parent.Deadline(); ok {
		ctx, undeadline = context.WithDeadline(ctx, end)
	}
	stop := context.AfterFunc(parent, func() { time.AfterFunc(cutAfter, cancel) })
	return ctx, func() { stop(); undeadline(); cancel() }
}

// SQLSTATE codes (PostgreSQL documentation, appendix A) that are decided on.
const (
	codeReadOnly  = "25006" // read_only_sql_transaction
	codeNoLock    = "55P03" // lock_not_available: lock_timeout is over
	codeCancelled = "57014" // query_canceled: also that statement_timeout is over
	codeCheck     = "23514" // check_violation; also: no partition for the row
	codeNoTable   = "42P01" // undefined_table
	codeNoSchema  = "3F000" // invalid_schema_name
	codeNotNull   = "23502" // not_null_violation
	codeNoFunc    = "42883" // undefined_function
	codeNoData    = "P0002" // no_data_found: raised by cancel
	codeUnique    = "23505" // unique_violation
	codeDeadlock  = "40P01" // deadlock_detected
	codeSerialize = "40001" // serialization_failure
	codeSchema    = "42P06" // duplicate_schema
	codeTable     = "42P07" // duplicate_table
	codeRight     = "42501" // insufficient_privilege
	codeRefused   = "LH409" // ours: what was asked for must not be
	codeProtocol  = "08P01" // protocol_violation: what PgBouncer says to a startup parameter
)

// code is the SQLSTATE of an error; "" where it has none.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// missing reports whether the error says that our tables are not there.
func missing(err error) bool { return code(err) == codeNoTable || code(err) == codeNoSchema }
