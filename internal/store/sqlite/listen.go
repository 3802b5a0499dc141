package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// lookEvery is how often Listen looks for what others have committed. A look takes some ten microseconds.
const lookEvery = 10 * time.Millisecond

// Idle does nothing: this store has no notifications that a producer could be spared. It is looked at, see Listen.
func (s *Store) Idle(ctx context.Context, _ task.Session, _ bool) error { return ctx.Err() }

// Listen calls wake once at its start, and then whenever tasks have been inserted, or released so that they are due at
// once, or asked to stop, by anyone. It checks on a connection of its own whether anything was committed (PRAGMA data_version,
// https://sqlite.org/pragma.html#pragma_data_version), and only if so, whether it is of interest: claims and
// settlements, an agent's own or another's, wake no agent.
func (s *Store) Listen(ctx context.Context, wake func(store.News)) (err error) {
	db, err := s.openDB("ro")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	l, err := newListener(ctx, db, s.sql)
	if err == nil {
		err = l.loop(ctx, wake)
		err = errors.Join(err, l.close())
	}
	if ctx.Err() != nil {
		return nil
	}
	return s.explain("listen for tasks", err)
}

// listener is a connection that looks at what the others commit.
type listener struct {
	conn          *sql.Conn
	version, work *sql.Stmt
}

func newListener(ctx context.Context, db *sql.DB, q *statements) (*listener, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	l := &listener{conn: conn}
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
	inserted, released, cancelled int64
}

// since returns what has happened since an earlier count.
func (w work) since(earlier work) (n store.News) {
	if w.inserted != earlier.inserted || w.released != earlier.released {
		n |= store.Due
	}
	if w.cancelled != earlier.cancelled {
		n |= store.CancelNews
	}
	return n
}

func (l *listener) look(ctx context.Context) (w work, err error) {
	err = l.work.QueryRowContext(ctx).Scan(&w.inserted, &w.released, &w.cancelled)
	return w, err
}

func (l *listener) loop(ctx context.Context, wake func(store.News)) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	seen, last, first := int64(0), work{}, true
	for {
		var version int64
		if err := l.version.QueryRowContext(ctx).Scan(&version); err != nil {
			return err
		}
		if first || version != seen {
			now, err := l.look(ctx)
			if err != nil {
				return err
			}
			news := now.since(last)
			if first {
				news = store.Due | store.CancelNews
			}
			if news != 0 {
				wake(news)
			}
			seen, last, first = version, now, false
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
