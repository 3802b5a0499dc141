//go:build linux

package faults

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/test/faults/history"
)

// How long the producer of a batch keeps a transaction open, waits between two of them, and goes on trying to seal it.
const (
	openMost   = 2 * time.Second
	pauseMost  = 2 * time.Second
	sealWithin = 2 * time.Minute
)

// group is a batch to be made: what each transaction of it inserts.
type group struct {
	name      string
	onFailure string
	finish    *string
	parts     []part
	streamed  bool // it is sealed when all is there, and not from the start
}

// part is one transaction.
type part struct {
	rows        []row
	back, async bool
	open, pause time.Duration // how long it stays open, and what passes before it
}

// produceGroups makes batches until ctx ends, and goes on with those that are begun.
func (w *world) produceGroups(ctx context.Context) {
	if w.o.Batches == 0 {
		return
	}
	r := rand.New(rand.NewPCG(w.o.Seed, 4))
	tick := time.NewTicker(w.o.Batches)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		g := newGroup(r, fmt.Sprintf("batch-%d-%d", w.o.Seed, n), w.rolledBack(), cmp.Or(w.o.Open, openMost))
		w.load.Go(func() { w.makeGroup(ctx, g) })
	}
}

func newGroup(r *rand.Rand, name string, rolledBack []string, open time.Duration) group {
	g := group{name: name, onFailure: []string{"continue", "cancel", "rollback", "rollback"}[r.IntN(4)], streamed: r.IntN(3) == 0}
	if r.IntN(4) > 0 {
		finish := kindFinish
		g.finish = &finish
	}
	parts, size := 1, 3+r.IntN(8)
	if g.streamed {
		parts, size = 2+r.IntN(3), 1+r.IntN(4)
	} else if r.IntN(15) == 0 {
		size = 0 // it ends at once
	}
	kinds := slices.Concat([]string{"plain", "held"}, rolledBack, rolledBack)
	for i := range parts {
		p := part{pause: upTo(r, pauseMost)}
		for n := range size {
			row := newRow(r, kinds[r.IntN(len(kinds))], nil, fmt.Sprintf("%s-%d-%d", name, i, n), "")
			row.Batch, row.Expects.States = name, nil // what becomes of the others decides
			if r.IntN(2) == 0 {
				row.smooth()
			}
			p.rows = append(p.rows, row)
		}
		fate := r.IntN(16)
		p.back, p.async = fate == 0, fate == 1
		if r.IntN(3) == 0 {
			p.open = upTo(r, open)
		}
		g.parts = append(g.parts, p)
	}
	return g
}

// makeGroup inserts a batch and its rows, and seals it.
func (w *world) makeGroup(ctx context.Context, g group) {
	made := history.MadeBatch{Name: g.name, At: history.Now()}
	for i, p := range g.parts {
		if i > 0 {
			sleepUntil(ctx, time.Now().Add(p.pause))
		}
		commit := w.inTransaction(ctx, p.back, p.async, func(ctx context.Context, tx pgx.Tx) error {
			if i == 0 {
				if err := insertGroup(ctx, tx, g, &made.ID); err != nil {
					return err
				}
			}
			for n := range p.rows {
				p.rows[n].batch = &made.ID
			}
			if err := insertAll(ctx, tx, p.rows); err != nil {
				return err
			}
			sleepUntil(ctx, time.Now().Add(p.open))
			return nil
		})
		for n := range p.rows {
			p.rows[n].Commit = commit
		}
		w.keep(p.rows)
		if i > 0 {
			continue
		}
		made.Commit = commit
		w.mu.Lock()
		w.made = append(w.made, made)
		w.mu.Unlock()
		if commit == history.RolledBack || commit == history.Unknown {
			return
		}
	}
	if g.streamed {
		w.seal(ctx, made.ID)
	}
}

func insertGroup(ctx context.Context, tx pgx.Tx, g group, id *int64) error {
	return tx.QueryRow(ctx, `INSERT INTO leasehold.batch (name, on_failure, finish_type, finish_payload, sealed)
		VALUES ($1, $2, $3, $4, $5) RETURNING id`, g.name, g.onFailure, g.finish, `{"key": "`+g.name+`"}`, !g.streamed).Scan(id)
}

// seal seals a batch, again and again where the server is away.
func (w *world) seal(ctx context.Context, batch int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sealWithin)
	defer cancel()
	for ctx.Err() == nil && !w.request(ctx, history.Op{Verb: "seal", Batch: batch}) {
		sleepUntil(ctx, time.Now().Add(200*time.Millisecond))
	}
}
