package sqlite

import (
	"context"
	"database/sql"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// DeclareChunks notes what a session declares, and puts the newest declarations of all present sessions in force.
func (s *Store) DeclareChunks(
	ctx context.Context, session task.Session, plans []store.ChunkDeclaration,
) (did store.DeclaredChunks, err error) {
	rows := arg("list", list(plans, func(d *store.ChunkDeclaration) []any {
		text, hash := d.Text()
		return []any{d.Spec.Name, hash, text}
	}))
	by := arg("session", int64(session))
	err = s.change(ctx, "declare chunk plans", func(t *tx) error {
		did = store.DeclaredChunks{}
		if err := t.row([]any{&did.Known}, t.sql.IsSession, by); err != nil || !did.Known {
			return err
		}
		if _, err := t.exec(t.sql.PutChunkDeclarations, rows); err != nil {
			return err
		}
		for _, q := range []*sqltext.Query{t.sql.ForgetChunkDeclarers, t.sql.PutChunkDeclarers} {
			if _, err := t.exec(q, by, rows); err != nil {
				return err
			}
		}
		for _, q := range []*sqltext.Query{t.sql.InsertDeclaredChunks, t.sql.SettleChunks} {
			if _, err := t.exec(q, arg("now", stamp(t.now))); err != nil {
				return err
			}
		}
		return t.query(func(r *sql.Rows) error {
			var name string
			var inForce, refused bool
			err := r.Scan(&name, truthOf{&inForce}, truthOf{&refused})
			if inForce {
				did.InForce = append(did.InForce, name)
			}
			if refused {
				did.Refused = append(did.Refused, name)
			}
			return err
		}, t.sql.DeclaredChunks, by)
	})
	return did, err
}
