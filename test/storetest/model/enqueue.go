package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Limits of the table's columns.
const (
	maxLabels   = 4 << 10 // bytes of JSON
	maxPriority = 10      // and -maxPriority is the least
	maxAttempts = 1000
	maxLock     = 1 << 10 // bytes
	maxTenant   = 1 << 10 // bytes
)

// errKey is what a plain INSERT gets for a key that a live row of the type has.
var errKey = errors.New("a live task of this type has this key")

// Enqueue inserts a row, or does with the live one that has the same type and key what the request asks for.
func (s *Store) Enqueue(ctx context.Context, r store.EnqueueRequest) (id task.ID, answer store.Enqueued, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, "", err
	}
	defer s.mu.Unlock()
	row, err := makeRow(r, now)
	if err == nil {
		err = checkOnLive(r)
	}
	if err != nil {
		return 0, "", err
	}
	if there := s.keyed(row); there != nil {
		id, answer = s.meet(r, row, there)
		return id, answer, nil
	}
	if err := errors.Join(s.admits(row.Batch), s.waits(row)); err != nil {
		return 0, "", err
	}
	s.add(row)
	return row.ID, store.EnqueuedInserted, nil
}

// Insert is the plain INSERT of an application: all rows or none.
func (s *Store) Insert(ctx context.Context, requests ...store.EnqueueRequest) ([]task.ID, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	rows := make([]*Row, len(requests))
	keys := map[[2]string]bool{}
	for i, r := range requests {
		row, err := makeRow(r, now)
		if err != nil {
			return nil, err
		}
		key := [2]string{row.Type, row.Key}
		if s.keyed(row) != nil || row.Key != "" && keys[key] {
			return nil, errKey
		}
		if err := errors.Join(s.admits(row.Batch), s.waits(row)); err != nil {
			return nil, err
		}
		rows[i], keys[key] = row, true
	}
	ids := make([]task.ID, len(rows))
	for i, row := range rows {
		s.add(row)
		ids[i] = row.ID
	}
	return ids, nil
}

// keyed finds the live row with the type and key of row; nil where there is none, or row has no key.
func (s *Store) keyed(row *Row) *Row {
	if row.Key == "" {
		return nil
	}
	for _, r := range s.rows(func(r *Row) bool { return r.Type == row.Type && r.Key == row.Key }) {
		return r
	}
	return nil
}

// add gives the row its number, if it has none, stores it, and wakes listeners.
func (s *Store) add(row *Row) {
	if row.ID == 0 {
		s.lastTask++
		row.ID = s.lastTask
	}
	s.live[row.ID] = row
	s.notify(store.Due)
}

// notify wakes listeners.
func (s *Store) notify(news store.News) {
	for wake := range s.listeners {
		(*wake)(news)
	}
}

// makeRow fills the defaults in and refuses bad values.
func makeRow(r store.EnqueueRequest, now time.Time) (*Row, error) {
	bad := func(format string, a ...any) (*Row, error) {
		return nil, &store.InputError{Text: fmt.Sprintf(format, a...)}
	}
	row := &Row{
		Type: r.Type, State: task.StatePending, Priority: r.Priority, Region: r.Region, Key: r.Key,
		Payload: r.Payload, RollbackPayload: r.RollbackPayload, Batch: r.Batch, Lock: r.Lock, Sequence: r.Sequence, After: r.After, AfterIf: r.AfterIf, Tenant: r.Tenant, Traceparent: r.Traceparent, CreatedBy: r.CreatedBy, MaxAttempts: r.MaxAttempts,
		CreatedAt: now, RunAt: r.RunAt.UTC().Truncate(time.Microsecond),
	}
	if r.RunAt.IsZero() {
		row.RunAt = now.Add(r.In + r.Debounce)
	}
	if r.Payload == nil {
		row.Payload = json.RawMessage(`{}`)
	}
	if len(r.Labels) > 0 {
		labels, err := json.Marshal(r.Labels)
		if err != nil {
			return nil, fmt.Errorf("encode labels: %w", err)
		}
		row.Labels = labels
	}
	switch {
	case r.Type == "":
		return bad("a task needs a type")
	case r.Priority < -maxPriority || r.Priority > maxPriority:
		return bad("priority %d is not within -%d..%d", r.Priority, maxPriority, maxPriority)
	case r.MaxAttempts < 0 || r.MaxAttempts > maxAttempts:
		return bad("max_attempts %d is not within 1..%d", r.MaxAttempts, maxAttempts)
	case !json.Valid(row.Payload):
		return bad("the payload is not JSON")
	case row.RollbackPayload != nil && !json.Valid(row.RollbackPayload):
		return bad("the rollback payload is not JSON")
	case len(row.Payload) > store.DefaultMaxPayload || len(row.RollbackPayload) > store.DefaultMaxPayload:
		return bad("a payload is larger than %s", store.Size(store.DefaultMaxPayload))
	case len(row.Sequence) > maxLock:
		return bad("the sequence is %d bytes, and at most %d are kept", len(row.Sequence), maxLock)
	case len(row.Lock) > maxLock:
		return bad("the lock is %d bytes, and at most %d are kept", len(row.Lock), maxLock)
	case len(row.After) > store.MaxAfter:
		return bad("after has %d ids", len(row.After))
	case row.AfterIf != "" && row.AfterIf != store.AfterIfSucceeded && row.AfterIf != store.AfterIfAny:
		return bad("after_if is %q", row.AfterIf)
	case len(row.Tenant) > maxTenant:
		return bad("the tenant is %d bytes, and at most %d are kept", len(row.Tenant), maxTenant)
	case len(row.Labels) > maxLabels:
		return bad("the labels take %d bytes, and at most %d are kept", len(row.Labels), maxLabels)
	}
	return row, nil
}
