package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// declareSequences notes what a session declares of the sequences of types, and puts in force what is to be by all that sessions declare.
func (s *Store) declareSequences(ctx context.Context, on querier, session task.Session, a store.Agent) error {
	types, rules := make([]string, len(a.Sequences)), make([]string, len(a.Sequences))
	for i, q := range a.Sequences {
		types[i], rules[i] = q.Type, q.OnFailure
	}
	return exec(ctx, on, s.sql.DeclareSequences, arg("session", int64(session)), arg("types", types), arg("rules", rules))
}

// ListSequences returns sequences by type and name.
func (s *Store) ListSequences(ctx context.Context, f store.SequenceFilter) (all store.SequenceList, err error) {
	err = s.do(ctx, "list sequences", func(ctx context.Context, conn *pgx.Conn) error {
		all = store.SequenceList{}
		if err := conn.QueryRow(ctx, "SELECT now()").Scan(&all.Now); err != nil {
			return err
		}
		types, names, err := s.findSequences(ctx, conn, f)
		if err == nil {
			all.List, err = s.showSequences(ctx, conn, types, names)
		}
		return err
	})
	all.Now = all.Now.UTC()
	return all, err
}

// findSequences returns the types and the names of sequences.
func (s *Store) findSequences(ctx context.Context, on querier, f store.SequenceFilter) (types, names []string, err error) {
	if f.Name != "" {
		return []string{storable(f.Type)}, []string{storable(f.Name)}, nil
	}
	types, names = []string{}, []string{} // not nil: that is NULL
	var typ, name string
	err = forEach(ctx, on, []any{&typ, &name}, func() error {
		types, names = append(types, typ), append(names, name)
		return nil
	}, s.sql.FindSequences, arg("only", storable(f.Type)), arg("type", storable(f.FromType)), arg("from", storable(f.FromName)),
		arg("limit", store.PageSize(f.Limit)))
	return types, names, err
}

// showSequences returns those of the sequences that have rows, or are blocked.
func (s *Store) showSequences(ctx context.Context, on querier, types, names []string) (list []store.SequenceInfo, err error) {
	most := store.CountedOf(len(types))
	var i store.SequenceInfo
	var since *time.Time
	var live, failures int
	into := []any{&i.Type, &i.Sequence, (*string)(&i.State), (*int64)(&i.Task), &live, &since, &failures}
	err = forEach(ctx, on, into, func() error {
		i.Since = utc(since)
		i.Count(live, failures, most)
		list = append(list, i)
		return nil
	}, s.sql.ShowSequences, arg("types", types), arg("names", names), arg("most", most+2))
	return list, err
}

// SequenceRows returns the first rows of a sequence, so many at most.
func (s *Store) SequenceRows(ctx context.Context, typ, name string, most int) (rows []task.ID, err error) {
	err = s.do(ctx, "look at a sequence", func(ctx context.Context, conn *pgx.Conn) error {
		rows = nil
		var id task.ID
		return forEach(ctx, conn, []any{(*int64)(&id)}, func() error {
			rows = append(rows, id)
			return nil
		}, s.sql.SequenceRows, arg("type", storable(typ)), arg("name", storable(name)), arg("limit", int64(most)))
	})
	return rows, err
}

// SkipSequence resolves the failure that blocks a sequence, of that task if one is given.
func (s *Store) SkipSequence(ctx context.Context, typ, name string, id task.ID, by string) (task.ID, error) {
	return s.resolve(ctx, "skip", s.sql.SequenceSkip, typ, name, id, by)
}

// RetrySequence retries the failed row that blocks a sequence, that task if one is given.
func (s *Store) RetrySequence(ctx context.Context, typ, name string, id task.ID, by string) (task.ID, error) {
	return s.resolve(ctx, "retry", s.sql.SequenceRetry, typ, name, id, by)
}

func (s *Store) resolve(ctx context.Context, verb string, call *sqltext.Query, typ, name string, id task.ID, by string) (task.ID, error) {
	answer, err := s.operate(ctx, fmt.Sprintf("%s the failure of sequence %q", verb, name), store.ErrNoSequence, call,
		arg("type", storable(typ)), arg("name", storable(name)), arg("task", int64(id)), arg("by", storable(by)))
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(answer, 10, 64)
	return task.ID(n), err
}

// CancelSequence cancels some of the waiting rows of a sequence and resolves its failures. 0: there were no more of them.
func (s *Store) CancelSequence(ctx context.Context, typ, name, by string) (int, error) {
	answer, err := s.operate(ctx, fmt.Sprintf("cancel sequence %q", name), store.ErrNoSequence, s.sql.SequenceCancel,
		arg("type", storable(typ)), arg("name", storable(name)), arg("by", storable(by)))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(answer)
}
