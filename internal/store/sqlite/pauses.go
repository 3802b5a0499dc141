package sqlite

import (
	"context"
	"database/sql"

	"github.com/leasehold/leasehold/internal/store"
)

// Pauses lists the types that are paused.
func (s *Store) Pauses(ctx context.Context) (list []store.TypePause, err error) {
	err = s.view(ctx, "list paused types", func(t *snapshot) error {
		list, err = t.pauses()
		return err
	})
	return list, err
}

func (t *snapshot) pauses() (list []store.TypePause, err error) {
	err = t.query(func(r *sql.Rows) error {
		var p store.TypePause
		err := r.Scan(&p.Type, timeOf{&p.At}, &p.By, &p.Reason)
		list = append(list, p)
		return err
	}, t.sql.Pauses)
	return list, err
}

// PauseType pauses a type.
func (s *Store) PauseType(ctx context.Context, typ, reason, by string) (changed bool, err error) {
	return s.changePause(ctx, "pause type", typ, false, func(t *tx) error {
		_, err := t.exec(t.sql.PauseType, arg("type", typ), arg("reason", reason), arg("by", by))
		return err
	})
}

// ResumeType resumes a type.
func (s *Store) ResumeType(ctx context.Context, typ, by string) (changed bool, err error) {
	return s.changePause(ctx, "resume type", typ, true, func(t *tx) error {
		_, err := t.exec(t.sql.ResumeType, arg("type", typ), arg("by", by))
		return err
	})
}

// changePause makes a change to a type that is paused, or is not.
func (s *Store) changePause(ctx context.Context, what, typ string, paused bool, change func(t *tx) error) (changed bool, err error) {
	err = s.change(ctx, what, func(t *tx) error {
		var is bool
		if err := t.row([]any{&is}, t.sql.IsPaused, arg("type", typ)); err != nil {
			return err
		}
		changed = is == paused
		if !changed {
			return nil
		}
		return change(t)
	})
	return changed && err == nil, err
}
