package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// Pauses lists the types that are paused.
func (s *Store) Pauses(ctx context.Context) (list []store.TypePause, err error) {
	err = s.do(ctx, "list paused types", func(ctx context.Context, conn *pgx.Conn) error {
		list, err = s.readPauses(ctx, conn)
		return err
	})
	return list, err
}

func (s *Store) readPauses(ctx context.Context, on querier) (list []store.TypePause, err error) {
	var p store.TypePause
	err = forEach(ctx, on, []any{&p.Type, &p.At, &p.By, &p.Reason}, func() error {
		p.At = p.At.UTC()
		list = append(list, p)
		return nil
	}, s.sql.Pauses)
	return list, err
}

// PauseType pauses a type.
func (s *Store) PauseType(ctx context.Context, typ, reason, by string) (changed bool, err error) {
	answer, err := s.operate(ctx, fmt.Sprintf("pause type %q", typ), nil, s.sql.PauseType,
		arg("type", storable(typ)), arg("reason", storable(reason)), arg("by", storable(by)))
	return err == nil && answer != "unchanged", err
}

// ResumeType resumes a type.
func (s *Store) ResumeType(ctx context.Context, typ, by string) (changed bool, err error) {
	answer, err := s.operate(ctx, fmt.Sprintf("resume type %q", typ), nil, s.sql.ResumeType,
		arg("type", storable(typ)), arg("by", storable(by)))
	return err == nil && answer != "unchanged", err
}
