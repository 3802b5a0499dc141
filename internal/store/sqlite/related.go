package sqlite

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// related reads what a task of a batch waits for, what waits for it, and what was cancelled on account of it; nil: nothing.
func (t *snapshot) related(id task.ID, batch task.BatchID) (*store.Related, error) {
	of := arg("id", int64(id))
	after, r, err := t.named(id)
	if err != nil {
		return nil, err
	}
	var waiting []task.ID
	err = t.row([]any{&r.WaitingTotal}, t.sql.WaitingTotal, of)
	if err = errors.Join(err, t.row([]any{&r.CancelledTotal}, t.sql.CancelledTotal, of)); err != nil || r.None() {
		return nil, err
	}
	if err := t.query(scanIDs(&waiting), t.sql.WaitingFor, of, arg("limit", store.MostNeighbours)); err != nil {
		return nil, err
	}
	if r.After, err = t.neighbours(after[:min(len(after), store.MostNeighbours)]); err != nil {
		return nil, err
	}
	if r.Waiting, err = t.neighbours(waiting); err != nil {
		return nil, err
	}
	err = t.query(func(rows *sql.Rows) error {
		var n store.Neighbour
		err := rows.Scan(&n.ID, &n.Type, &n.State, &n.Barred)
		r.Cancelled = append(r.Cancelled, n)
		return err
	}, t.sql.CancelledNeighbours, of, arg("batch", int64(batch)), arg("limit", store.MostNeighbours))
	return &r, err
}

// named returns which tasks one names, each once and by id, and what else related reads of it.
func (t *snapshot) named(id task.ID) (ids []task.ID, r store.Related, err error) {
	list := ""
	err = t.row([]any{textOf[string]{&list}, textOf[string]{&r.AfterIf}, numberOf[task.ID]{&r.CancelledFor}}, t.sql.Related, arg("id", int64(id)))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, r, err
	}
	if list != "" {
		if err := json.Unmarshal([]byte(list), &ids); err != nil {
			return nil, r, fmt.Errorf("read what task %d waits for: %w", id, err)
		}
		r.AfterIf = cmp.Or(r.AfterIf, store.AfterIfSucceeded)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	r.AfterTotal = len(ids)
	return ids, r, nil
}

// neighbours reads what tasks are.
func (t *snapshot) neighbours(ids []task.ID) (list []store.Neighbour, err error) {
	found := map[task.ID]store.Neighbour{}
	err = t.query(func(rows *sql.Rows) error {
		var n store.Neighbour
		err := rows.Scan(&n.ID, &n.Type, &n.State)
		found[n.ID] = n
		return err
	}, t.sql.Neighbours, arg("ids", jsonList(ids)))
	for _, id := range ids {
		n := found[id]
		n.ID = id
		list = append(list, n)
	}
	return list, err
}
