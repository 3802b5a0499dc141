//go:build linux

package faults

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/leasehold/leasehold/test/faults/effect"
	"github.com/leasehold/leasehold/test/faults/history"
)

// Among how many of the last rows and batches operators choose: what is under way, and what has ended.
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
		verb := []string{"cancel", "retry", "retry", "rollback", "rollback"}[r.IntN(5)]
		whole, which := r.IntN(2) == 0, r.IntN([]int{recent, older}[r.IntN(2)])
		o, found := w.choose(verb, whole, which)
		if r.IntN(2) == 0 {
			o, found = w.aim(ctx, verb, whole, which)
		}
		if found {
			w.request(ctx, o)
		}
	}
}

// choose picks a row or a batch of those that were made last, however it stands.
func (w *world) choose(verb string, whole bool, which int) (o history.Op, found bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o.Verb = verb
	if whole {
		if i := len(w.made) - 1 - which; i >= 0 && w.made[i].Commit != history.RolledBack {
			o.Batch = w.made[i].ID
		}
		return o, o.Batch != 0
	}
	for i := len(w.rows) - 1 - which; i >= 0 && o.ID == 0; i-- {
		if e := &w.rows[i]; e.Commit == history.Committed && e.Kind != "ordered" {
			o.ID = e.ID
		}
	}
	return o, o.ID != 0
}

// Those of which something would come.
const (
	apt = `SELECT id FROM leasehold.tasks WHERE type = ANY ($1) AND CASE $2
			WHEN 'cancel' THEN state IN ('pending', 'running', 'retry_pending')
			WHEN 'retry' THEN state IN ('failed', 'cancelled', 'rolled_back')
			ELSE state IN ('succeeded', 'running', 'retry_pending', 'rollback_failed') END
		ORDER BY id DESC LIMIT 1 OFFSET $3`
	aptBatch = `SELECT id FROM leasehold.batches WHERE $1::text[] IS NOT NULL AND CASE $2
			WHEN 'cancel' THEN ended_at IS NULL
			WHEN 'retry' THEN state IN ('failed', 'partially_failed', 'cancelled', 'rolled_back')
			ELSE state IN ('succeeded', 'partially_failed', 'running') END
		ORDER BY id DESC LIMIT 1 OFFSET $3`
)

// aim picks one of which something would come, just now.
func (w *world) aim(ctx context.Context, verb string, whole bool, which int) (o history.Op, found bool) {
	call, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	o.Verb = verb
	sql, id := apt, &o.ID
	if whole {
		sql, id = aptBatch, &o.Batch
	}
	err := w.app.QueryRow(call, sql, WithRollback(), verb, which%recent).Scan(id) // the server may be away, or there is none
	return o, err == nil
}

// freed notes that a row may end otherwise than it was made for.
func (w *world) freed(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.rows {
		if w.rows[i].ID == id {
			w.rows[i].Expects.States = nil
		}
	}
}

// request asks the store for something and notes what it says. It is true where the store has answered.
func (w *world) request(ctx context.Context, o history.Op) (answered bool) {
	w.freed(o.ID)
	call, cancel := context.WithTimeout(ctx, askWithin)
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
		w.sampleBatches(ctx)
	}
	return answered
}
