package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
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
func (s *Store) DeclaredBlocks(ctx context.Context) (list []store.DeclaredBlock, err error) {
	err = s.do(ctx, "list what is declared", func(ctx context.Context, conn *pgx.Conn) error {
		list = nil
		var b store.DeclaredBlock
		var body string
		var sessions []int64
		return forEach(ctx, conn, []any{
			&b.Number, &b.Kind, &b.Name, &body, &b.FirstAt, &b.FirstBy, &b.LastAt, &b.LastBy, &sessions,
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
		}, s.sql.DeclaredBlocks)
	})
	return list, err
}
