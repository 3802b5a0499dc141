package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
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
func (s *Store) DeclaredBlocks(ctx context.Context) (list []store.DeclaredBlock, err error) {
	err = s.view(ctx, "list what is declared", func(t *snapshot) error {
		return t.query(func(r *sql.Rows) error {
			var b store.DeclaredBlock
			var body, sessions string
			if err := r.Scan(&b.Number, &b.Kind, &b.Name, &body, timeOf{&b.FirstAt}, &b.FirstBy, timeOf{&b.LastAt}, &b.LastBy,
				&sessions); err != nil {
				return err
			}
			if err := errors.Join(json.Unmarshal([]byte(body), &b.Fields), json.Unmarshal([]byte(sessions), &b.Sessions)); err != nil {
				return fmt.Errorf("declaration %d: %w", b.Number, err)
			}
			list = append(list, b)
			return nil
		}, t.sql.DeclaredBlocks, arg("now", stamp(s.now())))
	})
	return list, err
}
