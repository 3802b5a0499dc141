package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
)

// CancelOrphans cancels some of the waiting rows of a type that no present agent declares.
func (s *Store) CancelOrphans(ctx context.Context, o store.OrphanStep) (store.OrphansStepped, error) {
	return s.stepOrphans(ctx, "cancel", s.sql.CancelOrphans, o)
}

// MoveOrphans gives some of the waiting rows of a type that no present agent declares another type.
func (s *Store) MoveOrphans(ctx context.Context, o store.OrphanStep) (store.OrphansStepped, error) {
	return s.stepOrphans(ctx, "move", s.sql.MoveOrphans, o, arg("into", storable(o.Into)))
}

// stepOrphans calls one of the functions. A repeat changes what is left to be changed.
func (s *Store) stepOrphans(
	ctx context.Context, verb string, call *sqltext.Query, o store.OrphanStep, more ...sqltext.Arg,
) (done store.OrphansStepped, err error) {
	from, err := json.Marshal(o.From)
	if err != nil {
		return done, err
	}
	answer, err := s.operate(ctx, fmt.Sprintf("%s orphans of type %q", verb, o.Type), nil, call, append(more,
		arg("type", storable(o.Type)), arg("from", string(from)), arg("preview", o.Preview), arg("reason", storable(o.Reason)),
		arg("by", storable(o.By)))...)
	if err == nil {
		err = json.Unmarshal([]byte(answer), &done)
	}
	if len(done.Left) == 0 {
		done.Left = nil
	}
	return done, err
}
