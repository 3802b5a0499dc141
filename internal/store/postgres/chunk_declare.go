package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// DeclareChunks notes what a session declares, and puts the newest declarations of all present sessions in force.
func (s *Store) DeclareChunks(ctx context.Context, session task.Session, list []store.ChunkDeclaration) (did store.DeclaredChunks, err error) {
	names, hashes, specs := make([]string, len(list)), make([]string, len(list)), make([]string, len(list))
	for i := range list {
		names[i] = list[i].Spec.Name
		specs[i], hashes[i] = list[i].Text()
	}
	by := arg("session", int64(session))
	declared := []sqltext.Arg{by, arg("names", names), arg("hashes", hashes)}
	err = s.do(ctx, "declare chunk plans", func(ctx context.Context, conn *pgx.Conn) error {
		did = store.DeclaredChunks{}
		return s.changeAll(ctx, conn, func(tx pgx.Tx) error {
			if err := exec(ctx, tx, s.sql.PutChunkDeclarations, append(declared, arg("specs", specs))...); err != nil {
				return err
			}
			err := scanOne(ctx, tx, []any{&did.Known}, s.sql.DeclareChunks, declared...)
			if err != nil || !did.Known {
				return err
			}
			if err := exec(ctx, tx, s.sql.InsertDeclaredChunks); err != nil {
				return err
			}
			if err := exec(ctx, tx, s.sql.SettleChunks); err != nil {
				return err
			}
			var name string
			var inForce, refused bool
			return forEach(ctx, tx, []any{&name, &inForce, &refused}, func() error {
				if inForce {
					did.InForce = append(did.InForce, name)
				}
				if refused {
					did.Refused = append(did.Refused, name)
				}
				return nil
			}, s.sql.DeclaredChunks, by)
		})
	})
	return did, err
}

// changeAll is change for several statements: all of them, or none.
func (s *Store) changeAll(ctx context.Context, conn *pgx.Conn, f func(pgx.Tx) error) error {
	if err := s.failAt(failBefore); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return s.failAt(failCommit)
	})
	if err != nil {
		return err
	}
	return s.failAt(failAfter)
}
