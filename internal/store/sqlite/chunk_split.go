package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ChunkTask returns the live chunk of a task; store.ErrNoChunk where it is none, or its batch stops.
func (s *Store) ChunkTask(ctx context.Context, id task.ID) (c *store.ChunkTask, err error) {
	err = s.view(ctx, "look at a chunk", func(t *snapshot) error {
		c = new(store.ChunkTask)
		err := t.row([]any{&c.Plan, &c.Table, &c.Key, keyOf{&c.Range.After}, keyOf{&c.Range.Through}, &c.Rows, &c.Stuck},
			t.sql.ChunkTask, arg("id", int64(id)))
		if errors.Is(err, sql.ErrNoRows) {
			return store.ErrNoChunk
		}
		return err
	})
	return c, err
}

// split inserts the halves of a chunk, and returns the settlement with them as its result; store.ErrNoChunk where the row
// is not split.
func (b *settling) split(e *store.Settlement) (*store.Settlement, error) {
	if e.Outcome.Split == nil {
		return nil, store.ErrNoChunk
	}
	id := arg("id", int64(e.ID))
	var place store.ChunkPlace
	err := b.row([]any{&place.Spec.Name, &place.Planned, &place.Part, keyOf{&place.Range.After}, keyOf{&place.Range.Through}},
		b.sql.SplitChunk, id, arg("fence", int64(e.Fence)), arg("session", int64(b.session)), arg("cancel_seen", !e.CancelUnseen()))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, store.ErrNoChunk
	}
	if err != nil {
		return nil, err
	}
	if err := b.row([]any{&place.Spec.Table, &place.Spec.Key}, b.sql.SplitPlan, arg("name", place.Spec.Name)); err != nil {
		return nil, err
	}
	var ids [2]task.ID
	halves := place.Halves(e.Outcome.Split)
	for n := range halves {
		h := &halves[n]
		err := b.row([]any{&ids[n]}, b.sql.InsertHalfTask, id, arg("now", b.at), arg("payload", h.Payload), arg("ever_started", e.Next.EverStarted))
		if err != nil {
			return nil, err
		}
		if _, err := b.exec(b.sql.InsertHalf, id, arg("half", int64(ids[n])), arg("part", h.Part), arg("after", keyOrNull(h.Range.After)),
			arg("through", keyOrNull(h.Range.Through)), arg("rows", h.Rows)); err != nil {
			return nil, err
		}
	}
	if _, err := b.exec(b.sql.CountSplit, id); err != nil {
		return nil, err
	}
	b.due = true
	split := *e
	split.Outcome.Result = store.SplitResult(ids)
	return &split, nil
}
