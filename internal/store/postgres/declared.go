package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// DeclareBlocks notes what a session declares.
func (s *Store) DeclareBlocks(ctx context.Context, session task.Session, list []store.Block) (known bool, err error) {
	n := len(list)
	kinds, names, hashes, bodies := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i := range list {
		kinds[i], names[i] = list[i].Kind, storable(list[i].Name)
		text, hash := list[i].Text()
		bodies[i], hashes[i] = text, hash
	}
	err = s.do(ctx, "note what is declared", func(ctx context.Context, conn *pgx.Conn) error {
		return s.change(ctx, conn, func(on querier) error {
			return scanOne(ctx, on, []any{&known}, s.sql.DeclareBlocks, arg("session", int64(session)), arg("kinds", kinds),
				arg("names", names), arg("hashes", hashes), arg("bodies", bodies))
		})
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
	return s.definitions(ctx, "list the definitions of a block", s.sql.BlockHistory, arg("kind", kind), arg("name", storable(name)),
		arg("limit", limit))
}

// definitions reads definitions of blocks.
func (s *Store) definitions(ctx context.Context, what string, q *sqltext.Query, args ...sqltext.Arg) (list []store.DeclaredBlock, err error) {
	err = s.do(ctx, what, func(ctx context.Context, conn *pgx.Conn) error {
		list, err = s.readDefinitions(ctx, conn, q, args...)
		return err
	})
	return list, err
}

func (*Store) readDefinitions(ctx context.Context, on querier, q *sqltext.Query, args ...sqltext.Arg) (list []store.DeclaredBlock, err error) {
	var b store.DeclaredBlock
	var body string
	var sessions []int64
	err = forEach(ctx, on, []any{
		&b.Number, &b.Kind, &b.Name, &b.Hash, &body, &b.FirstAt, &b.FirstBy, &b.LastAt, &b.LastBy, &sessions,
	}, func() error {
		one := b
		one.FirstAt, one.LastAt = one.FirstAt.UTC(), one.LastAt.UTC()
		if err := json.Unmarshal([]byte(body), &one.Fields); err != nil {
			return fmt.Errorf("declaration %d: %w", b.Number, err)
		}
		for _, n := range sessions {
			one.Sessions = append(one.Sessions, task.Session(n))
		}
		list = append(list, one)
		return nil
	}, q, args...)
	return list, err
}
