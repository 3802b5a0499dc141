//go:build linux

package faults

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/leasehold/leasehold/test/faults/effect"
	"github.com/leasehold/leasehold/test/faults/history"
)

// Operators choose among this many of the newest rows and batches: mostly unfinished ones, or also finished ones.
const (
	recent = 12
	older  = 60
)

// operate makes random requests until ctx ends, each operator independently of the others.
func (w *world) operate(ctx context.Context, who int) {
	r := rand.New(rand.NewPCG(w.o.Seed, 100+uint64(who)))
	for {
		sleepUntil(ctx, time.Now().Add(200*time.Millisecond+upTo(r, time.Second)))
		if ctx.Err() != nil {
			return
		}
		if r.IntN(5) == 0 {
			w.operateSequence(ctx, r)
			continue
		}
		verb := []string{"cancel", "retry", "retry", "rollback", "rollback"}[r.IntN(5)]
		batch, skip := r.IntN(2) == 0, r.IntN([]int{recent, older}[r.IntN(2)])
		o, found := w.chooseAny(verb, batch, skip)
		if r.IntN(2) == 0 {
			o, found = w.chooseFitting(ctx, verb, batch, skip)
		}
		if found {
			w.request(ctx, o)
		}
	}
}

// chooseAny picks a row or a batch in any state: the newest one after skipping some.
func (w *world) chooseAny(verb string, batch bool, skip int) (o history.Op, found bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o.Verb = verb
	if batch {
		if i := len(w.made) - 1 - skip; i >= 0 && w.made[i].Commit != history.RolledBack {
			o.Batch = w.made[i].ID
		}
		return o, o.Batch != 0
	}
	for i := len(w.rows) - 1 - skip; i >= 0 && o.ID == 0; i-- {
		if e := &w.rows[i]; e.Commit == history.Committed && e.Kind != "ordered" && e.Under == "" {
			o.ID = e.ID
		}
	}
	return o, o.ID != 0
}

// Rows and batches in a state in which a verb changes something.
const (
	fittingRow = `SELECT id FROM leasehold.tasks WHERE type = ANY ($1) AND CASE $2
			WHEN 'cancel' THEN state IN ('pending', 'running', 'retry_pending')
			WHEN 'retry' THEN state IN ('failed', 'cancelled', 'rolled_back')
			ELSE state IN ('succeeded', 'running', 'retry_pending', 'rollback_failed') END
		ORDER BY id DESC LIMIT 1 OFFSET $3`
	fittingBatch = `SELECT id FROM leasehold.batches WHERE $1::text[] IS NOT NULL AND CASE $2
			WHEN 'cancel' THEN ended_at IS NULL
			WHEN 'retry' THEN state IN ('failed', 'partially_failed', 'cancelled', 'rolled_back')
			ELSE state IN ('succeeded', 'partially_failed', 'running') END
		AND name NOT LIKE 'chunks %' -- a plan stands still while the batch of its pass is cancelled
		ORDER BY id DESC LIMIT 1 OFFSET $3`
)

// chooseFitting picks a row or a batch whose present state the verb would change.
func (w *world) chooseFitting(ctx context.Context, verb string, batch bool, skip int) (o history.Op, found bool) {
	call, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	o.Verb = verb
	sql, id := fittingRow, &o.ID
	if batch {
		sql, id = fittingBatch, &o.Batch
	}
	err := w.app.QueryRow(call, sql, append(WithRollback(), kindFormer, kindRenamed), verb, skip%recent).Scan(id) // the server may be away, or there is none
	return o, err == nil
}

// allowAnyEnd records that a row may end in another state than its script leads to. Its producer may not have kept it yet.
func (w *world) allowAnyEnd(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.anyEnd == nil {
		w.anyEnd = map[int64]bool{}
	}
	w.anyEnd[id] = true
	for i := range w.rows {
		if w.rows[i].ID == id {
			w.rows[i].Expects.States = nil
		}
	}
}

// request sends an operation to the store and records the response. It reports whether the store responded.
func (w *world) request(ctx context.Context, o history.Op) (answered bool) {
	w.allowAnyEnd(o.ID)
	call, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	sql, id := `SELECT leasehold.`+o.Verb+`($1)`, o.ID
	if o.Batch != 0 {
		sql, id = `SELECT leasehold.`+o.Verb+`_batch($1)`, o.Batch
	}
	o.Requested = history.Now()
	err := w.app.QueryRow(call, sql, id).Scan(&o.Answer)
	if answered = err == nil || effect.Answered(err); answered {
		o.At = history.Now()
	}
	if err != nil {
		o.Answer, o.Error = "", err.Error()
	}
	w.mu.Lock()
	w.ops = append(w.ops, o)
	w.mu.Unlock()
	if o.Batch != 0 && err == nil && !w.o.SQLite {
		w.sampleBatchesOnce(ctx)
	}
	return answered
}
