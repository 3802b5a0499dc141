package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ChunkTask returns the live chunk of a task; store.ErrNoChunk where it is none, or its batch stops.
func (s *Store) ChunkTask(ctx context.Context, id task.ID) (c *store.ChunkTask, err error) {
	err = s.do(ctx, "look at a chunk", func(ctx context.Context, conn *pgx.Conn) error {
		c = new(store.ChunkTask)
		err := queryRow(ctx, conn, s.sql.ChunkTask, arg("id", int64(id))).
			Scan(&c.Plan, &c.Table, &c.Key, &c.Range.After, &c.Range.Through, &c.Rows, &c.Stuck)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNoChunk
		}
		return err
	})
	return c, err
}

// withoutSplits lists the places of rows that are not split.
func (r *settling) withoutSplits(places []int) []int {
	if !slices.ContainsFunc(places, r.splits) {
		return places
	}
	return slices.DeleteFunc(slices.Clone(places), r.splits)
}

func (r *settling) splits(place int) bool { return r.rows[place].Next.State == task.StateSplit }

// split settles the rows at places that are split, each in a transaction of its own, and fills in their answers.
func (r *settling) split(ctx context.Context, places []int) error {
	for _, p := range places {
		if !r.splits(p) {
			continue
		}
		err := r.splitOne(ctx, &r.rows[p])
		if noPartition(err) {
			if err = r.s.makePartitions(ctx, r.conn); err == nil {
				err = r.splitOne(ctx, &r.rows[p])
			}
		}
		switch {
		case err == nil:
			r.answers[p] = store.Applied
		case errors.Is(err, errPlanLocked):
			r.answers[p] = store.Busy
		case errors.Is(err, errStale):
			if _, err := r.explain(ctx, []int{p}); err != nil {
				return err
			}
		case errors.Is(err, store.ErrNoChunk), badValue(err): // without the split, what is refused is kept in another form
			r.answers[p] = store.CannotSplit
		default:
			return err
		}
	}
	return nil
}

// errPlanLocked: an application's transaction has a chunk's plan locked.
var errPlanLocked = errors.New("the chunk's plan is locked")

// splitOne settles a chunk and inserts its halves. It is errStale where the settlement does not apply.
func (r *settling) splitOne(ctx context.Context, e *store.Settlement) error {
	s := r.s
	id := arg("id", int64(e.ID))
	return s.changeAll(ctx, r.conn, func(tx pgx.Tx) error {
		var place store.ChunkPlace
		var name, table, key *string
		err := queryRow(ctx, tx, s.sql.SplitPlan, id).Scan(&name, &table, &key)
		chunk := !errors.Is(err, pgx.ErrNoRows)
		switch {
		case chunk && err != nil:
			return err
		case chunk && name == nil:
			return errPlanLocked
		case chunk:
			place.Spec.Name, place.Spec.Table, place.Spec.Key = *name, *table, *key
		}
		if err := r.archive(ctx, tx, e); err != nil {
			return err
		}
		if !chunk || e.Outcome.Split == nil {
			return store.ErrNoChunk
		}
		err = queryRow(ctx, tx, s.sql.SplitChunk, id).Scan(&place.Planned, &place.Part, &place.Range.After, &place.Range.Through)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNoChunk
		}
		if err != nil {
			return err
		}
		return r.halve(ctx, tx, e, &place)
	})
}

// archive settles one row in a transaction.
func (r *settling) archive(ctx context.Context, tx pgx.Tx, e *store.Settlement) error {
	var c settleColumns
	c.add(e)
	c.reports.set(0, 1, &e.Report)
	applied, err := collectIDs(query(ctx, tx, r.s.sql.Settle, c.args(r.session)...))
	if err == nil && len(applied) == 0 {
		return errStale
	}
	return err
}

// halve inserts the halves of a chunk that was settled.
func (r *settling) halve(ctx context.Context, tx pgx.Tx, e *store.Settlement, place *store.ChunkPlace) error {
	id := arg("id", int64(e.ID))
	halves := place.Halves(e.Outcome.Split)
	var payloads, parts []string
	var after, through []*string
	var rows []int32
	for n := range halves {
		h := &halves[n]
		payloads, parts, rows = append(payloads, h.Payload), append(parts, h.Part), append(rows, int32(h.Rows))
		after, through = append(after, (*string)(h.Range.After)), append(through, (*string)(h.Range.Through))
	}
	ids, err := collectIDs(query(ctx, tx, r.s.sql.InsertHalfTasks, id, arg("payloads", payloads)))
	if err != nil {
		return err
	}
	slices.Sort(ids)
	if err := exec(ctx, tx, r.s.sql.InsertHalves, id, arg("ids", ids), arg("parts", parts), arg("after", after),
		arg("through", through), arg("rows", rows)); err != nil {
		return err
	}
	return exec(ctx, tx, r.s.sql.NoteSplit, id, arg("result", string(store.SplitResult([2]task.ID{task.ID(ids[0]), task.ID(ids[1])}))))
}
