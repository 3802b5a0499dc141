package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// Orphans lists the types of waiting rows that no present agent with workers declares. It counts a part of the rows, where there are many.
func (s *Store) Orphans(ctx context.Context) (all store.OrphanList, err error) {
	err = s.view(ctx, "list orphans", func(t *snapshot) error {
		var found store.OrphanTally
		declared, err := t.declaredTypes(s.now(), new(store.Stats))
		if err != nil {
			return err
		}
		for _, from := range sources() {
			find := t.heldTypes
			if from.typed {
				find = t.waitingTypes
			}
			if err := find(from, &found); err != nil {
				return err
			}
		}
		names := found.Undeclared(declared)
		most := store.CountedOf(len(names))
		for _, name := range names {
			if err := t.countOrphans(found.Type(name), most+1); err != nil {
				return err
			}
		}
		all = found.List(names, most)
		return nil
	})
	return all, err
}

// waitingTypes finds the types of the rows that an index has.
func (t *snapshot) waitingTypes(from source, found *store.OrphanTally) error {
	q, err := from.fill(t.sql.WaitingTypes)
	if err != nil {
		return err
	}
	n := 0
	err = t.query(func(r *sql.Rows) error {
		var name string
		err := r.Scan(&name)
		found.Type(name)
		n++
		return err
	}, q, arg("steps", store.OrphanSteps))
	found.More = found.More || n >= store.OrphanSteps
	return err
}

// heldTypes finds the types, and counts the rows, of an index that does not have them by type.
func (t *snapshot) heldTypes(from source, found *store.OrphanTally) error {
	q, err := from.fill(t.sql.HeldTypes)
	if err != nil {
		return err
	}
	var seen int64
	err = t.query(func(r *sql.Rows) error {
		var name string
		var waiting, running int64
		var oldest time.Time
		if err := r.Scan(&name, &waiting, timeOf{&oldest}, &running); err != nil {
			return err
		}
		o := found.Type(name)
		o.Wait(waiting, oldest)
		o.Running += running
		seen += waiting + running
		return nil
	}, q, arg("most", store.OrphanHeld))
	found.Capped = found.Capped || seen >= store.OrphanHeld
	return err
}

// countOrphans counts the rows of a type that indexes have by type, so many in each at most, and finds who declared it last.
func (t *snapshot) countOrphans(o *store.OrphanType, most int) error {
	for _, from := range sources() {
		if !from.typed {
			continue
		}
		q, err := from.fill(t.sql.CountOfType)
		if err != nil {
			return err
		}
		var n int64
		var oldest time.Time
		if err := t.row([]any{&n, timeOf{&oldest}}, q, arg("type", o.Type), arg("most", most)); err != nil {
			return err
		}
		o.Wait(n, oldest)
	}
	var at time.Time
	err := t.row([]any{timeOf{&at}, &o.DeclaredBy, &o.DeclaredAs}, t.sql.LastDeclared, arg("type", o.Type))
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	o.DeclaredAt = pointer(at)
	return err
}
