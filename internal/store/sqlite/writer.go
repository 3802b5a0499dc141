package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// writer is the one connection that writes. Calls take turns.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn
	queue queue
	stmts map[string]*sql.Stmt // prepared once, by their text; only the call whose turn it is uses it
	pace  pace
	held  atomic.Bool // a transaction has the lock

	closed bool // like stmts

	large  map[task.ID]bool // large rows that were claimed and not settled, some at least; like stmts
	shrink bool             // what SQLite keeps is more than it needs; like stmts
}

func (s *Store) openWriter(ctx context.Context) (*writer, error) {
	// The lock of another process is waited for by begin, which tries more often than SQLite itself would.
	db, err := s.openDB("rw", "journal_size_limit(67108864)")
	if err != nil {
		return nil, err
	}
	w := &writer{db: db, stmts: map[string]*sql.Stmt{}, large: map[task.ID]bool{}}
	if w.conn, err = db.Conn(ctx); err == nil {
		err = s.useWAL(ctx, w.conn)
	}
	if err != nil {
		return nil, errors.Join(s.explain("open", err), w.close())
	}
	if _, err := w.conn.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return nil, errors.Join(s.explain("open", err), w.close())
	}
	return w, nil
}

// useWAL switches the file to write-ahead logging, where it is not yet. SQLite does not wait where several
// processes switch at once.
func (s *Store) useWAL(ctx context.Context, conn *sql.Conn) error {
	return s.retryBusy(ctx, time.Now().Add(s.busy), func() error {
		var mode string
		if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode = wal").Scan(&mode); err != nil {
			return err
		}
		if mode != "wal" {
			return fmt.Errorf("its file system does not allow write-ahead logging (journal mode %q): use a local disk", mode)
		}
		return nil
	})
}

// close closes the connection. It must be the caller's turn.
func (w *writer) close() error {
	w.closed = true
	var errs []error
	for _, stmt := range w.stmts {
		errs = append(errs, stmt.Close())
	}
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
	}
	return errors.Join(append(errs, w.db.Close())...)
}

// enter waits for the turn to write.
func (w *writer) enter(ctx context.Context, u urgency) (*ticket, error) {
	p, err := w.queue.enter(ctx, u)
	if err != nil {
		return nil, err
	}
	if w.closed {
		p.leave()
		return nil, errClosed
	}
	return p, nil
}

// tx is a transaction of the writer. Once begun it is carried to its end whatever becomes of the caller's context: it
// is short, and interrupting SQLite gains nothing.
type tx struct {
	ctx context.Context //nolint:containedctx // lives as long as the call that made it
	w   *writer
	sql *statements
	now time.Time
}

// longWait is how long a wait for another program's lock may take before it is worth a word.
const longWait = time.Second

// update runs fn in a transaction and commits what it did. Waiting for it is bounded by ctx and by the store's bound.
func (s *Store) update(ctx context.Context, op string, fn func(*tx) error) error {
	return s.updateAs(ctx, ordinary, op, fn)
}

// keep is update for a call that keeps what this process has: see pressing.
func (s *Store) keep(ctx context.Context, op string, fn func(*tx) error) error {
	return s.updateAs(ctx, pressing, op, fn)
}

func (s *Store) updateAs(ctx context.Context, u urgency, op string, fn func(*tx) error) error {
	if err := s.unmoved(); err != nil {
		return s.explain(op, err)
	}
	limit := time.Now().Add(s.busy)
	wait, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	p, err := s.write.enter(wait, u)
	if err != nil {
		return s.explain(op, queueError(ctx, err))
	}
	defer p.leave()
	if err := s.write.pace.wait(ctx); err != nil {
		return s.explain(op, err)
	}
	t := &tx{ctx: context.WithoutCancel(ctx), w: s.write, sql: s.sql}
	start := time.Now()
	err = s.retryBusy(ctx, limit, func() error {
		err := t.run("BEGIN IMMEDIATE")
		if isBusy(err) {
			if passed := p.letPass(wait); passed != nil {
				return queueError(ctx, passed)
			}
		}
		return err
	})
	if err != nil {
		return s.explain(op, err)
	}
	if waited := time.Since(start); waited > longWait {
		s.log.Warn("another program kept the store locked", "store", s.path, "op", op, "waited", waited)
	}
	return s.explain(op, s.carryOut(t, fn))
}

// carryOut runs fn in the transaction that has begun, and ends it.
func (s *Store) carryOut(t *tx, fn func(*tx) error) error {
	begun, committed := time.Now(), false
	s.write.held.Store(true)
	defer func() {
		if !committed {
			_ = t.run("ROLLBACK") // fails only where SQLite has rolled back already
		}
		s.write.held.Store(false)
		s.write.pace.ended(begun)
	}()
	version, err := t.dataVersion()
	if err != nil {
		return err
	}
	s.write.pace.begun(version)
	t.now = s.now()
	if err := fn(t); err != nil {
		return err
	}
	if err := t.run("COMMIT"); err != nil {
		return err
	}
	committed = true
	if t.w.shrink {
		t.w.shrink = false
		return t.run("PRAGMA shrink_memory") // the pages of large rows are of no more use
	}
	return nil
}

// mostLarge bounds the memory of large rows: those that another has settled are never struck out.
const mostLarge = 1000

// noteLarge remembers that a large row was claimed.
func (w *writer) noteLarge(id task.ID) {
	if len(w.large) >= mostLarge {
		clear(w.large)
	}
	w.large[id], w.shrink = true, true
}

// settledOne notes that a row is settled.
func (w *writer) settledOne(id task.ID) {
	if w.large[id] {
		delete(w.large, id)
		w.shrink = true
	}
}

// retryBusy calls f until it meets no lock of another connection, until limit or the end of ctx.
func (s *Store) retryBusy(ctx context.Context, limit time.Time, f func() error) error {
	locked, start := false, time.Now()
	for {
		if err := ctx.Err(); err != nil {
			if locked {
				err = fmt.Errorf("%w while another program kept the file locked", err)
			}
			return err
		}
		err := f()
		if !isBusy(err) || time.Now().After(limit) {
			return err
		}
		locked = true
		pause := time.NewTimer(lookAgain(time.Since(start)))
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

// stmt returns the prepared statement of that text.
func (t *tx) stmt(text string) (*sql.Stmt, error) {
	if stmt := t.w.stmts[text]; stmt != nil {
		return stmt, nil
	}
	stmt, err := t.w.conn.PrepareContext(t.ctx, text)
	if err == nil {
		t.w.stmts[text] = stmt
	}
	return stmt, err
}

func (t *tx) run(text string) error {
	_, err := t.execText(text)
	return err
}

// exec runs a statement and returns how many rows it changed.
func (t *tx) exec(q *sqltext.Query, args ...sqltext.Arg) (int64, error) {
	return t.execText(q.Text, q.Args(args...)...)
}

func (t *tx) execText(text string, values ...any) (int64, error) {
	stmt, err := t.stmt(text) //nolint:sqlclosecheck // it is kept, and closed with the writer
	if err != nil {
		return 0, err
	}
	res, err := stmt.ExecContext(t.ctx, values...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// query runs a statement that returns rows and calls each for every one of them. Statements of the same transaction may
// only run once it has returned.
func (t *tx) query(each func(*sql.Rows) error, q *sqltext.Query, args ...sqltext.Arg) error {
	stmt, err := t.stmt(q.Text) //nolint:sqlclosecheck // it is kept, and closed with the writer
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(t.ctx, q.Args(args...)...)
	if err != nil {
		return err
	}
	return eachRow(rows, each)
}

// row scans the first row of a query; sql.ErrNoRows where there is none.
func (t *tx) row(dest []any, q *sqltext.Query, args ...sqltext.Arg) error {
	stmt, err := t.stmt(q.Text) //nolint:sqlclosecheck // it is kept, and closed with the writer
	if err != nil {
		return err
	}
	return stmt.QueryRowContext(t.ctx, q.Args(args...)...).Scan(dest...)
}

// dataVersion returns a number that differs from the last where another connection has written.
func (t *tx) dataVersion() (version int64, err error) {
	stmt, err := t.stmt("PRAGMA data_version") //nolint:sqlclosecheck // it is kept, and closed with the writer
	if err != nil {
		return 0, err
	}
	err = stmt.QueryRowContext(t.ctx).Scan(&version)
	return version, err
}

func eachRow(rows *sql.Rows, each func(*sql.Rows) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// snapshot reads the file as it was at one moment.
type snapshot struct {
	ctx context.Context
	tx  *sql.Tx
	sql *statements
}

// query runs a statement that returns rows and calls each for every one of them.
func (t *snapshot) query(each func(*sql.Rows) error, q *sqltext.Query, args ...sqltext.Arg) error {
	rows, err := t.tx.QueryContext(t.ctx, q.Text, q.Args(args...)...)
	if err != nil {
		return err
	}
	return eachRow(rows, each)
}

// row scans the first row of a query; sql.ErrNoRows where there is none.
func (t *snapshot) row(dest []any, q *sqltext.Query, args ...sqltext.Arg) error {
	return t.tx.QueryRowContext(t.ctx, q.Text, q.Args(args...)...).Scan(dest...)
}

// view runs fn on one snapshot of the file, without waiting for writers.
func (s *Store) view(ctx context.Context, op string, fn func(*snapshot) error) (err error) {
	if err := s.unmoved(); err != nil {
		return s.explain(op, err)
	}
	t, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return s.explain(op, err)
	}
	defer func() {
		if end := t.Rollback(); end != nil && !errors.Is(end, sql.ErrTxDone) && err == nil {
			err = s.explain(op, end)
		}
	}()
	return s.explain(op, fn(&snapshot{ctx: ctx, tx: t, sql: s.sql}))
}
