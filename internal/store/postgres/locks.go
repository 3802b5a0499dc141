package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
)

// What take_locks reports by INFO messages, which need no row of the claim's result.
const (
	codeHeldBack = "LH001" // rows wait for their locks from now on
	codeLeft     = "LH002" // locks of rows were being passed on
)

// lockNews is the name, among a connection's own data, of the set of such messages.
const lockNews = "locks"

// noteLocks keeps what a claim reports of locks with its connection.
func noteLocks(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.Code != codeHeldBack && n.Code != codeLeft {
		return
	}
	news, _ := conn.CustomData()[lockNews].(map[string]bool)
	if news == nil {
		news = map[string]bool{}
		conn.CustomData()[lockNews] = news
	}
	news[n.Code] = true
}

// forgetLocks forgets what an earlier claim on the connection has reported.
func forgetLocks(conn *pgx.Conn) { delete(conn.PgConn().CustomData(), lockNews) }

// sawLocks reports whether the last claim on the connection has held rows back, and whether it has left some.
func sawLocks(conn *pgx.Conn) (held, left bool) {
	news, _ := conn.PgConn().CustomData()[lockNews].(map[string]bool)
	return news[codeHeldBack], news[codeLeft]
}

// Promote lets locks go that rows have left, and passes on the turns of sequences.
func (s *Store) Promote(ctx context.Context, most int) (p store.Promoted, err error) {
	err = s.do(ctx, "promote", func(ctx context.Context, conn *pgx.Conn) error {
		p = store.Promoted{}
		for _, of := range s.sql.promotions() {
			some, _, err := s.promote(ctx, conn, of, most, nil)
			if err != nil {
				return err
			}
			p = p.With(some)
		}
		return nil
	})
	if err == nil && p.Rows > 0 {
		s.lowWater.rose()
	}
	return p, err
}

// promotion is a statement that promotes, and one that finds whether there are notes for it.
type promotion struct{ notes, promote *sqltext.Query }

func (s *statements) promotions() []promotion {
	return []promotion{{s.LockNotes, s.PromoteLocks}, {s.TurnNotes, s.PromoteTurns}}
}

// promote carries out one of the promotions, if there are notes for it, and returns the rows that it has started. ask is the claim that it does
// so for, or nil.
func (s *Store) promote(ctx context.Context, conn *pgx.Conn, of promotion, most int, ask []byte) (p store.Promoted, started []int64, err error) {
	var there bool
	if err := queryRow(ctx, conn, of.notes).Scan(&there); err != nil || !there {
		return p, nil, err
	}
	err = s.change(ctx, conn, func(on querier) error {
		var us int64
		var text *string
		if ask != nil {
			text = new(string)
			*text = string(ask)
		}
		err := scanOne(ctx, on, []any{&p.Rows, &p.Noted, &p.Missed, &us, &started}, of.promote, arg("most", int64(most)), arg("ask", text))
		if us >= 0 {
			p.Next = max(microseconds(us), time.Microsecond)
		}
		return err
	})
	return p, started, err
}
