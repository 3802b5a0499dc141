//go:build linux

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/faults/script"
)

// produce inserts rows until ctx ends: in transactions of some rows each, some of which are rolled back, some committed
// without waiting for the disk.
func (w *world) produce(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.o.Seed, 1))
	tick := time.NewTicker(time.Second / time.Duration(w.o.Rate))
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.transaction(ctx, r, n)
	}
}

// row is one to be inserted.
type row struct {
	history.Enqueued
	script []script.Deed
	most   *int // its own limit of attempts
}

// transaction inserts some rows.
func (w *world) transaction(ctx context.Context, r *rand.Rand, n int) {
	kinds := w.o.Kinds
	if len(kinds) == 0 {
		kinds = []string{
			"plain", "held", "held", "completed", "completed", "accepted", "streamed", "ordered", "child", "child", "steady", "patient",
		}
	}
	kind := kinds[r.IntN(len(kinds))]
	size := 1 + r.IntN(3)
	if kind == "ordered" {
		size = 4 + r.IntN(8)
	}
	rows := make([]row, size)
	for i := range rows {
		rows[i] = newRow(r, kind, w.o.Script, fmt.Sprintf("%d-%d-%d", w.o.Seed, n, i), fmt.Sprintf("%d-%d", w.o.Seed, n))
	}
	fate := r.IntN(20)
	cancels := r.IntN(15) == 0
	commit := w.insert(ctx, rows, fate < 2, fate == 2)
	for i := range rows {
		rows[i].Commit = commit
		if cancels && commit == history.Committed {
			w.cancel(ctx, &rows[i].Enqueued)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, row := range rows {
		w.rows = append(w.rows, row.Enqueued)
	}
}

// cancel asks for the end of a row. Whether the server is reached or not: it was asked for.
func (w *world) cancel(ctx context.Context, e *history.Enqueued) {
	e.Expects.CancelAsked, e.Expects.States = true, nil
	if _, err := w.app.Exec(ctx, `SELECT leasehold.cancel($1)`, e.ID); err == nil {
		e.Expects.CancelAt = history.Now()
	}
}

func newRow(r *rand.Rand, kind string, s []script.Deed, key, cohort string) row {
	e := history.Enqueued{Key: key, Kind: kind, Cohort: cohort, At: history.Now()}
	e.Expects = history.Expects{Limit: Limit, Guarded: kind == "held" || kind == "completed", Child: kind == "child"}
	e.Expects.States = []string{"succeeded"}
	if s == nil {
		s = newScript(r, kind)
	}
	if last := s[len(s)-1]; last == script.Reject || last == script.Fail {
		e.Expects.States = []string{"failed"}
		if slices.Contains(s, script.Pause) || slices.Contains(s, script.Late) { // they may end it before
			e.Expects.States = append(e.Expects.States, "succeeded")
		}
	}
	var most *int
	if s[len(s)-1] == script.Fail {
		three := 3
		most, e.Expects.Limit = &three, three
	}
	if kind == "ordered" {
		e.Priority, e.RunAt = r.IntN(5)-2, -time.Duration(r.IntN(3))*time.Second
	}
	return row{e, s, most}
}

// newScript is some bad deeds, and what the row ends with.
func newScript(r *rand.Rand, kind string) []script.Deed {
	bad := []script.Deed{
		script.Fail, script.Later, script.Cut, script.Hang, script.Late, script.PingOn, script.Endless, script.Forge,
	}
	end := []script.Deed{script.OK, script.OK, script.Work, script.Work, script.Flood}
	switch kind {
	case "child":
		bad = []script.Deed{
			script.Fail, script.Later, script.Cut, script.Hang, script.Stubborn, script.PingOn,
		}
		end = append(end, script.Orphan)
	case "accepted":
		bad = append(bad, script.Silent)
		end = []script.Deed{script.OK}
	case "ordered":
		return []script.Deed{script.OK}
	case "steady":
		bad, end = []script.Deed{script.Fail, script.Pause}, []script.Deed{script.Pause, script.Work}
	case "patient":
		bad, end = []script.Deed{script.Fail, script.Late}, []script.Deed{script.OK, script.Work, script.Pause}
	}
	if r.IntN(12) == 0 {
		end = []script.Deed{script.Reject, script.Fail}
	}
	var s []script.Deed
	for range r.IntN(3) {
		if r.IntN(2) == 0 {
			s = append(s, bad[r.IntN(len(bad))])
		}
	}
	return append(s, end[r.IntN(len(end))])
}

// insert makes one transaction and tells what became of it.
func (w *world) insert(ctx context.Context, rows []row, back, async bool) history.Commit {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
	defer cancel()
	tx, err := w.app.Begin(call)
	if err != nil {
		return history.RolledBack
	}
	defer func() { _ = tx.Rollback(call) }()
	if async {
		if _, err := tx.Exec(call, `SET LOCAL synchronous_commit = off`); err != nil {
			return history.RolledBack
		}
	}
	for i := range rows {
		if err := insertOne(call, tx, &rows[i]); err != nil {
			return history.RolledBack
		}
	}
	if back {
		return history.RolledBack
	}
	switch err := tx.Commit(call); {
	case err == nil && async:
		return history.Async
	case err == nil:
		return history.Committed
	case answered(err):
		return history.RolledBack
	}
	return history.Unknown
}

// longAgo is when rows are due: at once, whatever becomes of the server's clock.
func longAgo() time.Time { return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) }

func insertOne(ctx context.Context, tx pgx.Tx, row *row) error {
	return tx.QueryRow(ctx, `INSERT INTO leasehold.task (type, key, payload, priority, run_at, max_attempts)
		VALUES ($1, $2, $3, $4, $5, $6) RETURNING id`,
		row.Kind, row.Key, script.Payload{Key: row.Key, Script: row.script}, row.Priority, longAgo().Add(row.RunAt), row.most).
		Scan(&row.ID)
}
