//go:build linux

package faults

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/faults/script"
)

// The rows of a batch that is cancelled while rows of it are claimed ahead. The first ones end at once, so an agent claims
// ahead as many as its slots finish in 50 ms; each of those after them takes script.Doze. So the rows that are claimed ahead
// when the first slow ones start wait for several times that: much longer than an agent may take to learn of a cancellation,
// and up to the longest that a claimed row may wait.
const (
	quickRows   = 240
	nappingRows = 160
	queued      = 4 // naps claimed for each slot: the last of them starts after three times script.Doze
)

// How long to wait until enough of a batch is claimed ahead, and until it has ended after its cancel.
const (
	catchWithin = 3 * time.Second
	endWithin   = 10 * time.Second
	catchEvery  = 5 * time.Millisecond
	leastCaught = 8               // in a run, however slow the machine: far more than the checker excuses
	caughtIn    = 2 * time.Minute // after the run's time, at most

	pauseBetween = 200 * time.Millisecond // between two of them, at most
)

// Whether the first agent holds so many of a batch's slow rows, and has written its presence just now. The answer to that
// names cancelled rows, too: so the next one comes only after some of the rows claimed ahead have started.
const caughtSQL = `
SELECT count(*) >= $2 FROM leasehold.task AS t JOIN leasehold.agent AS a USING (session)
WHERE t.batch_id = $1 AND t.state = 'running' AND t.priority < 0 AND a.name = $3
  AND a.seen_at > clock_timestamp() - make_interval(secs => $4)`

// catch makes a batch, cancels it once the first agent has claimed enough of it ahead, waits for its end, and begins again,
// until ctx ends and leastCaught of them were cancelled so. There must be two agents: the last one may get no notifications.
func (w *world) catch(ctx context.Context) {
	if !w.o.Caught {
		return
	}
	r := rand.New(rand.NewPCG(w.o.Seed, 5))
	enough, fresh := queued*cmp.Or(w.o.Workers, someWorkers), (w.presence() / 12).Seconds()
	over := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.o.Lasts+caughtIn)
	defer cancel()
	caught, n := 0, 0
	for ; over.Err() == nil || caught < leastCaught && ctx.Err() == nil; n++ {
		sleepUntil(ctx, time.Now().Add(50*time.Millisecond+upTo(r, pauseBetween)))
		batch, made := w.makeNapping(ctx, r, fmt.Sprintf("caught-%d-%d", w.o.Seed, n))
		if !made {
			continue
		}
		if w.await(ctx, catchWithin, caughtSQL, batch, enough, w.agents[0].name, fresh) {
			caught++
		}
		w.request(ctx, history.Op{Verb: "cancel", Batch: batch})
		w.await(ctx, endWithin, `SELECT ended_at IS NOT NULL FROM leasehold.batch WHERE id = $1`, batch)
	}
	if caught < leastCaught {
		w.fail(fmt.Errorf("only %d of %d batches were cancelled with rows of them claimed ahead", caught, n))
	}
}

// makeNapping inserts a batch of quick rows and slow ones, which are claimed after the quick ones. made reports whether its
// transaction has committed.
func (w *world) makeNapping(ctx context.Context, r *rand.Rand, name string) (id int64, made bool) {
	rows := make([]row, quickRows+nappingRows)
	for i := range rows {
		does := script.OK
		if i >= quickRows {
			does = script.Nap
		}
		rows[i] = newRow(r, "plain", []script.Deed{does}, fmt.Sprintf("%s-%d", name, i), "")
		rows[i].Batch, rows[i].batch, rows[i].Expects.States = name, &id, nil // some have ended when the batch is cancelled
		if does == script.Nap {
			rows[i].Priority = -1
		}
	}
	of := history.MadeBatch{Name: name, At: history.Now()}
	of.Commit = w.inTransaction(ctx, false, false, func(ctx context.Context, tx pgx.Tx) error {
		if err := insertGroup(ctx, tx, group{name: name, onFailure: "continue"}, &id); err != nil {
			return err
		}
		return insertAll(ctx, tx, rows)
	})
	for i := range rows {
		rows[i].Commit = of.Commit
	}
	of.ID = id
	w.keep(rows)
	w.mu.Lock()
	w.made = append(w.made, of)
	w.mu.Unlock()
	return id, of.Commit == history.Committed
}

// await asks the store again and again until it says yes; it is false where that takes too long.
func (w *world) await(ctx context.Context, within time.Duration, sql string, args ...any) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(catchEvery)
	defer tick.Stop()
	for yes := false; ; {
		if err := w.app.QueryRow(ctx, sql, args...).Scan(&yes); err == nil && yes {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}
