package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// How long a wait for a lock may take where it is not the hot path's, which never waits. Tests shorten them.
type waits struct {
	schema time.Duration // for others that change the schema: a migration of theirs may take that long
	step   time.Duration // for what a step of a migration, or an operator, has to lock
	look   time.Duration // until it is looked up who holds the lock
}

func defaultWaits() waits {
	return waits{schema: time.Minute, step: 5 * time.Second, look: time.Second}
}

// lockTimeout is the statement that bounds each wait for a lock in the rest of a transaction.
func lockTimeout(d time.Duration) string {
	return fmt.Sprintf("SET LOCAL lock_timeout = '%dms'", d.Milliseconds())
}

// naming runs f, which may wait for locks on the connection of the server process pid. Where f fails because it waited too
// long, the error says for whom: that is looked up, on a connection of its own, while it waits. naming returns once
// that look is over, which takes 2 s at most.
func (s *Store) naming(ctx context.Context, pid uint32, f func() error) error {
	over := make(chan struct{})
	who := make(chan string, 1)
	go func() { who <- s.blockers(ctx, pid, over) }()
	err := f()
	close(over)
	by := <-who
	if by == "" || !waitedTooLong(err) {
		return err
	}
	return fmt.Errorf("it waited too long for %s: %w", by, err)
}

// blockers looks again and again, until over is closed, which backends pid waits for. It returns those that it saw last, or
// "" if it saw none.
func (s *Store) blockers(ctx context.Context, pid uint32, over <-chan struct{}) (last string) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close(ctx) // it is closed in any case
		}
	}()
	for {
		select {
		case <-over:
			return last
		case <-time.After(s.waits.look):
		}
		look, done := context.WithTimeout(ctx, 2*time.Second)
		var err error
		if conn == nil {
			conn, err = s.connect.single(look)
		}
		var by string
		if err == nil {
			err = queryRow(look, conn, s.sql.Blockers, arg("pid", int64(pid))).Scan(&by)
		}
		done()
		if err != nil {
			return last // who waits fails for itself, and says why
		}
		if by != "" {
			last = by
		}
	}
}

// waitedTooLong reports whether an error may be the end of a wait for a lock.
func waitedTooLong(err error) bool {
	switch code(err) {
	case codeNoLock, codeCancelled:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded)
}
