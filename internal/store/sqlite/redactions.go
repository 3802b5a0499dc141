package sqlite

import (
	"context"
	"database/sql"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// noteRedactions notes what a session masks, before its row is written; session is 0 for one that joins.
func (t *tx) noteRedactions(session task.Session, a *store.Agent) error {
	_, err := t.exec(t.sql.NoteRedactions, arg("session", int64(session)), arg("types", jsonList(a.Types)), arg("redact", a.RedactText()))
	return err
}

// Redactions returns the members that are masked where documents are shown, by row type.
func (s *Store) Redactions(ctx context.Context) (all map[string][]string, err error) {
	err = s.view(ctx, "read what is masked", func(t *snapshot) error {
		all = map[string][]string{}
		return t.query(func(r *sql.Rows) error {
			var typ, name string
			err := r.Scan(&typ, &name)
			all[typ] = append(all[typ], name)
			return err
		}, t.sql.Redactions, arg("now", stamp(s.now())))
	})
	return all, err
}
