//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// kindNode is the type of the rows of a graph: each waits for some of those before it.
const kindNode = "node"

// Of a graph: how many rows a transaction inserts at most, how many others a row waits for, and how many a few wait for; and how many
// transactions may come to nothing, 50 ms apart, before the run is given up.
const (
	nodesAtOnce  = 40
	waitsForSome = 4
	waitsForMany = 40
	graphTries   = 2000
)

// produceGraph inserts a graph of rows at random, as fast as it can: each of two thirds waits for some of those before it, of its own
// transaction or committed, a quarter of these however they end. It does not stop before all of them are there.
func (w *world) produceGraph(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.o.Seed, 6))
	var there []int64
	for n := 0; len(there) < w.o.Graph; n++ {
		if n == w.o.Graph+graphTries {
			w.fail(errors.New("the graph could not be inserted"))
			return
		}
		rows := make([]row, min(1+r.IntN(nodesAtOnce), w.o.Graph-len(there)))
		for i := range rows {
			rows[i] = newRow(r, kindNode, w.o.Script, fmt.Sprintf("graph-%d-%d-%d", w.o.Seed, n, i), "")
			rows[i].waitFor(r, there, i)
		}
		commit := w.insert(ctx, rows, r.IntN(20) == 0, false)
		for i := range rows {
			if rows[i].Commit = commit; commit == history.Committed {
				there = append(there, rows[i].ID)
			}
		}
		w.keep(rows)
		if commit != history.Committed {
			sleepUntil(context.WithoutCancel(ctx), time.Now().Add(50*time.Millisecond))
		}
	}
}

// waitFor has a row wait for some of those that are there, mostly the newest, and for some of the first ones of its transaction.
func (row *row) waitFor(r *rand.Rand, there []int64, own int) {
	if r.IntN(3) == 0 {
		return
	}
	most := waitsForSome
	if r.IntN(40) == 0 {
		most = waitsForMany
	}
	for range 1 + r.IntN(most) {
		n := len(there)
		switch r.IntN(4) {
		case 0:
			if n > 0 {
				row.After = append(row.After, there[r.IntN(n)])
			}
		case 1:
			if n > 0 {
				row.After = append(row.After, there[n-1-r.IntN(min(n, nodesAtOnce))])
			}
		default:
			if own > 0 {
				row.own = append(row.own, r.IntN(own))
			}
		}
	}
	row.AfterAny = r.IntN(4) == 0
	if len(row.own)+len(row.After) > 0 && !row.AfterAny {
		row.Expects.States = append(row.Expects.States, "cancelled")
	}
}

// nodeSQL chooses a row of the graph whose present state a verb would change. A retried one brings back what was cancelled for it.
const nodeSQL = `SELECT id FROM leasehold.tasks WHERE type = $1 AND CASE $2
		WHEN 'cancel' THEN state IN ('pending', 'running', 'retry_pending') ELSE state IN ('failed', 'cancelled') END
	ORDER BY id DESC LIMIT 1 OFFSET $3`

// operateGraph cancels rows of the graph and retries those that have ended, until ctx ends.
func (w *world) operateGraph(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.o.Seed, 7))
	for {
		sleepUntil(ctx, time.Now().Add(50*time.Millisecond+upTo(r, 400*time.Millisecond)))
		if ctx.Err() != nil {
			return
		}
		o := history.Op{Verb: []string{"cancel", "retry", "retry", "retry"}[r.IntN(4)]}
		call, cancel := context.WithTimeout(ctx, queryTimeout)
		err := w.app.QueryRow(call, nodeSQL, kindNode, o.Verb, r.IntN(older)).Scan(&o.ID)
		cancel()
		if err == nil { // the server may be away, or there is none
			w.request(ctx, o)
		}
	}
}
