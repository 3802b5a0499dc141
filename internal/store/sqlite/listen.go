package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

const (
	// lookEvery is how often Listen looks for what others have committed, whether or not it has noticed a write. A look takes some
	// ten microseconds.
	lookEvery = 10 * time.Millisecond
	// After a write of others was noticed it looks every commitEvery until the commit is visible, at most for commitFor: mostly that
	// takes as long as to synchronize the log, but a transaction may also write long before its commit.
	commitEvery = 200 * time.Microsecond
	commitFor   = 5 * time.Millisecond
)

// Idle does nothing: this store has no notifications that a producer could be spared. It is looked at, see Listen.
func (s *Store) Idle(ctx context.Context, _ task.Session, _ bool) error { return ctx.Err() }

// Listen calls wake once at its start, and then whenever tasks have been inserted, or released so that they are due at
// once, or asked to stop, by anyone. It checks on a connection of its own whether anything was committed (PRAGMA data_version,
// https://sqlite.org/pragma.html#pragma_data_version), and only if so, whether it is of interest: claims and
// settlements, an agent's own or another's, wake no agent. It checks every lookEvery, and on Linux also when another process writes
// to the log.
func (s *Store) Listen(ctx context.Context, wake func(store.News)) (err error) {
	db, err := s.openDB("ro")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	l, err := newListener(ctx, db, s.sql)
	if err == nil {
		err = s.listen(ctx, l, wake)
		err = errors.Join(err, l.close())
	}
	if ctx.Err() != nil {
		return nil
	}
	return s.explain("listen for tasks", err)
}

// listen has the listener look until ctx ends. Without a watch it is only slower.
func (s *Store) listen(ctx context.Context, l *listener, wake func(store.News)) error {
	w, err := watchLog(s.path, s.write.held.Load)
	if err != nil {
		s.log.Debug("writes of other processes are not noticed at once", "store", s.path, "err", err)
		return l.loop(ctx, wake, nil)
	}
	return errors.Join(l.loop(ctx, wake, w.wrote), w.close())
}

// listener is a connection that looks at what the others commit.
type listener struct {
	conn          *sql.Conn
	version, work *sql.Stmt
	every         time.Duration // to look without a note

	seen  int64 // version at the last look
	last  work
	first bool // no look yet
}

func newListener(ctx context.Context, db *sql.DB, q *statements) (*listener, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	l := &listener{conn: conn, every: lookEvery, first: true}
	if l.version, err = conn.PrepareContext(ctx, "PRAGMA data_version"); err == nil {
		l.work, err = conn.PrepareContext(ctx, q.Wakeups.Text)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *listener) close() error {
	var errs []error
	for _, stmt := range []*sql.Stmt{l.version, l.work} {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	return errors.Join(append(errs, l.conn.Close())...)
}

// work is what counts the reasons to look.
type work struct {
	inserted, released, cancelled, waiting int64
}

// since returns what has happened since an earlier count.
func (w work) since(earlier work) (n store.News) {
	if w.inserted != earlier.inserted || w.released != earlier.released {
		n |= store.Due
	}
	if w.cancelled != earlier.cancelled {
		n |= store.CancelNews
	}
	if w.waiting != earlier.waiting {
		n |= store.AfterNews
	}
	return n
}

func (l *listener) look(ctx context.Context) (w work, err error) {
	err = l.work.QueryRowContext(ctx).Scan(&w.inserted, &w.released, &w.cancelled, &w.waiting)
	return w, err
}

// loop looks until ctx ends: at once, every l.every, and when wrote has an element. wrote may be nil.
func (l *listener) loop(ctx context.Context, wake func(store.News), wrote <-chan struct{}) error {
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	again.Stop()
	var until time.Time // the end of the looks after a write
	for {
		changed, err := l.check(ctx, wake)
		if err != nil {
			return err
		}
		if !changed && time.Now().Before(until) {
			again.Reset(commitEvery)
		} else {
			until = time.Time{}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-again.C:
		case <-wrote:
			until = time.Now().Add(commitFor)
		}
	}
}

// check looks whether anything was committed, and calls wake if that is of interest.
func (l *listener) check(ctx context.Context, wake func(store.News)) (changed bool, err error) {
	var version int64
	if err := l.version.QueryRowContext(ctx).Scan(&version); err != nil {
		return false, err
	}
	if !l.first && version == l.seen {
		return false, nil
	}
	now, err := l.look(ctx)
	if err != nil {
		return false, err
	}
	news := now.since(l.last)
	if l.first {
		news = store.Due | store.CancelNews | store.AfterNews
	}
	if news != 0 {
		wake(news)
	}
	l.seen, l.last, l.first = version, now, false
	return true, nil
}
