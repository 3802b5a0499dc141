package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// DeclareBlocks notes what a session declares.
func (s *Store) DeclareBlocks(ctx context.Context, session task.Session, list []store.Block) (known bool, err error) {
	err = s.change(ctx, "note what is declared", func(t *tx) error {
		var by string
		switch err := t.row([]any{&by}, t.sql.AgentName, arg("session", int64(session))); {
		case errors.Is(err, sql.ErrNoRows):
			known = false
			return nil
		case err != nil:
			return err
		}
		known = true
		if _, err := t.exec(t.sql.ForgetBlockDeclarers, arg("session", int64(session))); err != nil {
			return err
		}
		for i := range list {
			text, hash := list[i].Text()
			var number int64
			if err := t.row([]any{&number}, t.sql.PutBlock, arg("kind", list[i].Kind), arg("name", list[i].Name), arg("hash", hash),
				arg("body", text), arg("now", stamp(t.now)), arg("by", by)); err != nil {
				return err
			}
			if _, err := t.exec(t.sql.PutDeclarer, arg("session", int64(session)), arg("number", number)); err != nil {
				return err
			}
		}
		return nil
	})
	return known && err == nil, err
}

// DeclaredBlocks lists what present sessions declare.
func (s *Store) DeclaredBlocks(ctx context.Context) ([]store.DeclaredBlock, error) {
	return s.definitions(ctx, "list what is declared", s.sql.DeclaredBlocks)
}

// Declarations lists what present sessions declare, and the newest definition of each other block that was ever loaded.
func (s *Store) Declarations(ctx context.Context) ([]store.DeclaredBlock, error) {
	return s.definitions(ctx, "list declarations", s.sql.Declarations, arg("limit", store.DeclarationsListed))
}

// BlockHistory lists the definitions of a block that were ever loaded, the newest first.
func (s *Store) BlockHistory(ctx context.Context, kind, name string, limit int) ([]store.DeclaredBlock, error) {
	return s.definitions(ctx, "list the definitions of a block", s.sql.BlockHistory, arg("kind", kind), arg("name", name), arg("limit", limit))
}

// definitions reads definitions of blocks.
func (s *Store) definitions(ctx context.Context, what string, q *sqltext.Query, args ...sqltext.Arg) (list []store.DeclaredBlock, err error) {
	err = s.view(ctx, what, func(t *snapshot) error {
		return t.query(func(r *sql.Rows) error {
			var b store.DeclaredBlock
			var body, sessions string
			if err := r.Scan(&b.Number, &b.Kind, &b.Name, &b.Hash, &body, timeOf{&b.FirstAt}, &b.FirstBy, timeOf{&b.LastAt}, &b.LastBy,
				&sessions); err != nil {
				return err
			}
			if err := errors.Join(json.Unmarshal([]byte(body), &b.Fields), json.Unmarshal([]byte(sessions), &b.Sessions)); err != nil {
				return fmt.Errorf("declaration %d: %w", b.Number, err)
			}
			if len(b.Sessions) == 0 {
				b.Sessions = nil
			}
			list = append(list, b)
			return nil
		}, q, append(args, arg("now", stamp(s.now())))...)
	})
	return list, err
}
