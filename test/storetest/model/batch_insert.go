package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// admits reports whether rows may be inserted into a batch that is there already.
func (s *Store) admits(id task.BatchID) error {
	b := s.batches[id]
	bad := func(format string, a ...any) error { return &store.InputError{Text: fmt.Sprintf(format, a...)} }
	switch {
	case id == 0:
		return nil
	case b == nil:
		return bad("there is no batch %d", id)
	case b.Stopping && b.Requested == verbRollback:
		return bad("batch %d was rolled back: create another", id)
	case b.Stopping:
		return bad("batch %d was cancelled: create another", id)
	case b.Sealed:
		return bad("batch %d is sealed: insert its rows in the transaction that creates it, or create it with sealed = false", id)
	}
	return nil
}

// makeBatch fills the defaults in and refuses bad values.
func makeBatch(r store.BatchRequest, now time.Time) (*Batch, error) {
	bad := func(format string, a ...any) (*Batch, error) {
		return nil, &store.InputError{Text: fmt.Sprintf(format, a...)}
	}
	b := &Batch{
		Name: r.Name, OnFailure: r.OnFailure, FinishType: r.FinishType, FinishPayload: r.FinishPayload,
		CreatedBy: r.CreatedBy, CreatedAt: now, Sealed: !r.Open, Gone: map[task.State]int64{},
	}
	if b.OnFailure == "" {
		b.OnFailure = store.OnFailureContinue
	}
	if b.FinishPayload == nil {
		b.FinishPayload = json.RawMessage(`{}`)
	}
	if len(r.Labels) > 0 {
		labels, err := json.Marshal(r.Labels)
		if err != nil {
			return nil, fmt.Errorf("encode labels: %w", err)
		}
		b.Labels = labels
	}
	switch b.OnFailure {
	case store.OnFailureContinue, store.OnFailureCancel, store.OnFailureRollback:
	default:
		return bad("on_failure %q: use continue, cancel or rollback", b.OnFailure)
	}
	var payload map[string]any
	switch {
	case json.Unmarshal(b.FinishPayload, &payload) != nil || payload == nil:
		return bad("the finish payload is not a JSON object")
	case len(b.Labels) > maxLabels:
		return bad("the labels take %d bytes, and at most %d are kept", len(b.Labels), maxLabels)
	}
	return b, nil
}

// CreateBatch inserts a batch and its rows.
func (s *Store) CreateBatch(
	ctx context.Context, request store.BatchRequest, rows iter.Seq2[store.EnqueueRequest, error], progress func(int64),
) (id task.BatchID, err error) {
	p := s.Produce()
	defer func() { _ = p.Rollback(ctx) }() // which cannot fail
	if id, err = p.CreateBatch(ctx, request); err != nil {
		return 0, err
	}
	n := int64(0)
	var named []task.ID // rows with a ref
	for r, err := range rows {
		if err != nil {
			return 0, err
		}
		r.Batch = id
		for _, ref := range r.AfterRefs {
			r.After = append(slices.Clip(r.After), named[ref])
		}
		ids, err := p.Insert(ctx, r)
		if err != nil {
			return 0, err
		}
		if r.Ref {
			named = append(named, ids...)
		}
		n++
	}
	if err := p.Commit(ctx); err != nil {
		return 0, err
	}
	if progress != nil {
		progress(n)
	}
	return id, nil
}

// Producer is a transaction in which an application inserts. Nothing of it is to be seen before it commits, but that it
// is there: a batch that it has inserted into does not end.
type Producer struct {
	s       *Store
	batches map[task.BatchID]*Batch // that it creates
	rows    []*Row
	open    map[task.BatchID]*Batch // of others, that it has inserted into
	seals   []*Batch
}

// Produce begins a transaction in which an application inserts.
func (s *Store) Produce() *Producer {
	return &Producer{s: s, batches: map[task.BatchID]*Batch{}, open: map[task.BatchID]*Batch{}}
}

// CreateBatch inserts a batch.
func (p *Producer) CreateBatch(ctx context.Context, r store.BatchRequest) (task.BatchID, error) {
	now, err := p.s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer p.s.mu.Unlock()
	b, err := makeBatch(r, now)
	if err != nil {
		return 0, err
	}
	p.s.lastBatch++
	b.ID = p.s.lastBatch
	p.batches[b.ID] = b
	return b.ID, nil
}

// Insert inserts rows.
func (p *Producer) Insert(ctx context.Context, requests ...store.EnqueueRequest) ([]task.ID, error) {
	now, err := p.s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer p.s.mu.Unlock()
	var ids []task.ID
	for _, q := range requests {
		r, err := makeRow(q, now)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(p.admits(r), p.s.waits(r, p.rows...)); err != nil {
			return nil, err
		}
		p.s.lastTask++
		r.ID = p.s.lastTask
		p.rows = append(p.rows, r)
		ids = append(ids, r.ID)
	}
	return ids, nil
}

// admits reports whether the row may be inserted. Its batch is kept from ending then.
func (p *Producer) admits(row *Row) error {
	there := p.s.keyed(row)
	for _, r := range p.rows {
		if row.Key != "" && r.Key == row.Key && r.Type == row.Type {
			there = r
		}
	}
	if there != nil {
		return errKey
	}
	if p.batches[row.Batch] != nil {
		return nil
	}
	if err := p.s.admits(row.Batch); err != nil {
		return err
	}
	if b := p.s.batches[row.Batch]; b != nil && p.open[row.Batch] == nil {
		p.open[row.Batch] = b
		b.open++
	}
	return nil
}

// SealBatch seals a batch when the transaction commits.
func (p *Producer) SealBatch(ctx context.Context, id task.BatchID) (string, error) {
	if _, err := p.s.begin(ctx); err != nil {
		return "", err
	}
	defer p.s.mu.Unlock()
	b := p.batches[id]
	if b == nil {
		b = p.s.batches[id]
	}
	switch {
	case b == nil:
		return "", fmt.Errorf("there is no batch %d", id)
	case b.ended():
		return string(p.s.survey(b).State), nil
	}
	p.seals = append(p.seals, b)
	return store.BatchSealed, nil
}

// Commit ends the transaction, and all of it is there.
func (p *Producer) Commit(context.Context) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	maps.Copy(p.s.batches, p.batches)
	for _, r := range p.rows {
		p.s.add(r)
	}
	for _, b := range p.seals {
		b.Sealed = true
		p.s.notify(store.CancelNews)
	}
	p.close()
	return nil
}

// Rollback ends the transaction, and nothing of it has been.
func (p *Producer) Rollback(context.Context) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.close()
	return nil
}

func (p *Producer) close() {
	for _, b := range p.open {
		b.open--
	}
	p.batches, p.rows, p.open, p.seals = nil, nil, nil, nil
}
