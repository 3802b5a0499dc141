//go:build linux

package faults

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/test/faults/effect"
	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/faults/script"
)

// produce inserts rows until ctx ends: in transactions of some rows each, some of which are rolled back, some committed
// without waiting for the disk.
func (w *world) produce(ctx context.Context) {
	if w.o.Rate == 0 {
		return
	}
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
	payload  script.Payload
	attempts *int   // its max_attempts; nil: the type's
	batch    *int64 // nil: of none
	rollBack []byte // its rollback_payload; nil: it has none
	own      []int  // rows of its transaction that it waits for
}

// transaction inserts some rows.
func (w *world) transaction(ctx context.Context, r *rand.Rand, n int) {
	kinds := w.o.Kinds
	if len(kinds) == 0 {
		kinds = append([]string{
			"plain", "held", "held", "completed", "completed", "accepted", "streamed", "ordered", "child", "child", "steady", "patient",
			kindServe, kindServe, kindServe, kindBundle, kindBundle, kindChained, kindChained,
		}, w.rolledBack()...)
	}
	kind := w.nameOf(r, kinds[r.IntN(len(kinds))])
	size := 1 + r.IntN(3)
	if kind == "ordered" {
		size = 4 + r.IntN(8)
	}
	if kind == kindBundle {
		size = 10 + r.IntN(30)
	}
	rows := make([]row, size)
	for i := range rows {
		rows[i] = newRow(r, kind, w.o.Script, fmt.Sprintf("%d-%d-%d", w.o.Seed, n, i), fmt.Sprintf("%d-%d", w.o.Seed, n))
	}
	fate := r.IntN(20)
	cancels := r.IntN(15) == 0
	w.wait(rows)
	commit := w.insert(ctx, rows, fate < 2, fate == 2)
	for i := range rows {
		rows[i].Commit = commit
		if commit == history.Committed {
			rows[i].CommittedAt = history.Now()
		}
		if cancels && commit == history.Committed {
			w.cancel(ctx, &rows[i].Enqueued)
		}
	}
	w.keep(rows)
}

// keep records rows that were inserted, or that a failed transaction should have inserted.
func (w *world) keep(rows []row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, row := range rows {
		if w.anyEnd[row.ID] {
			row.Expects.States = nil
		}
		w.rows = append(w.rows, row.Enqueued)
	}
}

// cancel requests the cancellation of a row, and records the request even if the server cannot be reached.
func (w *world) cancel(ctx context.Context, e *history.Enqueued) {
	e.Expects.CancelRequested, e.Expects.States = true, nil
	if _, err := w.app.Exec(ctx, `SELECT leasehold.cancel($1)`, e.ID); err == nil {
		e.Expects.CancelAt = history.Now()
	}
}

func newRow(r *rand.Rand, kind string, s []script.Deed, key, cohort string) row {
	k := Kinds()[kind]
	e := history.Enqueued{Key: key, Kind: kind, Cohort: cohort, At: history.Now()}
	e.Lock, e.Sequence, e.Tenant = lockOf(kind, key), sequenceOf(kind, key), tenantOf(kind, key)
	e.Expects = history.Expects{Limit: Limit, Guarded: k.Guard != "", Child: k.Child, States: []string{"succeeded"}}
	if s == nil {
		s = newScript(r, kind)
	}
	made := row{Enqueued: e, payload: script.Payload{Key: key, Script: s}}
	last := s[len(s)-1]
	if last == script.Fail || last == script.Poison {
		attempts := 3
		made.attempts, made.Expects.Limit = &attempts, attempts
	}
	if last == script.Reject || last == script.Fail || last == script.Poison {
		made.Expects.States = []string{"failed"}
		if k.Rollback != nil {
			made.Expects.States = []string{"rolled_back", "rollback_failed"}
			if last != script.Reject && k.Check > 0 { // on a full disk every check may fail: it was never started then (RolledBackOnce)
				made.Expects.States = append(made.Expects.States, "failed")
			}
		}
		if slices.Contains(s, script.Pause) || slices.Contains(s, script.Late) { // they may end it before
			made.Expects.States = append(made.Expects.States, "succeeded")
		}
	}
	if k.Blocks {
		made.Expects.States = nil // it may be cancelled with its sequence
	}
	if kind == "ordered" {
		made.Priority, made.RunAt = r.IntN(5)-2, -time.Duration(r.IntN(3))*time.Second
	}
	if k.Rollback != nil {
		made.scriptRollback(r, k)
	}
	return made
}

// lockOf gives half of the rows of some kinds one of three locks.
func lockOf(kind, key string) string {
	if !slices.Contains([]string{"plain", "child", kindMount}, kind) {
		return ""
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // it never fails
	return []string{"", "", "", "x", "y", "z"}[h.Sum32()%6]
}

// tenantOf gives most rows of the type whose tenants are bounded one of three tenants.
func tenantOf(kind, key string) string {
	if kind != kindShared {
		return ""
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(key + "'s tenant")) // it never fails
	return []string{"", "x", "x", "y", "y", "z", "z"}[h.Sum32()%7]
}

// sequenceOf gives a quarter of the rows of some kinds one of six sequences, and all of another one of four.
func sequenceOf(kind, key string) string {
	if kind == kindChained {
		h := fnv.New32a()
		_, _ = h.Write([]byte(key + "'s")) // it never fails
		return fmt.Sprint("c", h.Sum32()%4)
	}
	if !slices.Contains(sequencedKinds(), kind) {
		return ""
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(key + "'s")) // it never fails
	if n := h.Sum32() % 24; n < 6 {
		return fmt.Sprint("s", n)
	}
	return ""
}

// sequencedKinds are those of which some rows have a sequence. Failures do not block the others: no operator is there for every one.
func sequencedKinds() []string { return []string{"plain", "child"} }

// scriptRollback sets what the row's checks and rollbacks do. Some rows have a rollback_payload; the rollbacks of others get the
// result or the payload.
func (row *row) scriptRollback(r *rand.Rand, k history.Kind) {
	bad := []script.Deed{script.Fail, script.Later, script.Cut, script.Hang, script.PingOn}
	if !k.Child {
		bad = append(bad, script.Late)
	}
	failures := func(oneIn int) (deeds []script.Deed) {
		for range 2 {
			if r.IntN(oneIn) == 0 {
				deeds = append(deeds, bad[r.IntN(len(bad))])
			}
		}
		return deeds
	}
	row.payload.Rollback = append(failures(3), []script.Deed{script.OK, script.OK, script.Work}[r.IntN(3)])
	if r.IntN(12) == 0 {
		row.payload.Rollback = []script.Deed{script.Fail, script.Reject}
	}
	if k.Check > 0 {
		row.payload.Check = append(failures(5), script.OK)
	}
	if r.IntN(2) == 0 {
		text, err := json.Marshal(script.Payload{Key: row.Key, Rollback: row.payload.Rollback})
		if err != nil {
			panic(err) // these are strings
		}
		row.rollBack = text
	}
}

// smooth leaves only the last deed of each phase: a batch waits for the slowest of its rows.
func (row *row) smooth() {
	for _, deeds := range []*[]script.Deed{&row.payload.Script, &row.payload.Check, &row.payload.Rollback} {
		if n := len(*deeds); n > 0 {
			*deeds = (*deeds)[n-1:]
		}
	}
}

// newScript returns some failures, and what the row ends with.
func newScript(r *rand.Rand, kind string) []script.Deed {
	bad := []script.Deed{
		script.Fail, script.Later, script.Cut, script.Hang, script.Late, script.PingOn, script.Endless, script.Forge,
	}
	end := []script.Deed{script.OK, script.OK, script.Work, script.Work, script.Flood}
	switch kind {
	case "child", kindMount, kindBuild:
		bad = []script.Deed{
			script.Fail, script.Later, script.Cut, script.Hang, script.Stubborn, script.PingOn,
		}
		if kind == "child" {
			end = append(end, script.Orphan)
		} else {
			end = end[:len(end)-1]
		}
	case kindServe, kindStamp, kindPress:
		bad, end = workersScript()
		if kind != kindServe {
			end = end[:len(end)-2] // it neither floods nor leaves anything behind
		}
	case kindBundle, kindParcel, kindFreight:
		var never []script.Deed
		if bad, end, never = manyScript(); r.IntN(24) == 0 {
			end = never
		}
		if kind == kindBundle && r.IntN(3) > 0 { // there are many of them
			bad = end
		}
		return fails(r, bad, end)
	case kindFormer, kindRenamed, kindCapped: // few of them run at once
		return fails(r, []script.Deed{script.Fail, script.Later, script.Cut}, []script.Deed{script.OK, script.Nap, script.Nap, script.Reject})
	case kindReserve, kindCharge:
		end = end[:len(end)-1] // others flood
	case "accepted":
		bad = append(bad, script.Silent)
		end = []script.Deed{script.OK}
	case "ordered":
		return []script.Deed{script.OK}
	case kindChained: // others wait for each of its attempts
		return fails(r, []script.Deed{script.Fail, script.Later, script.Cut}, []script.Deed{script.OK, script.OK, script.OK, script.Reject})
	case "steady":
		bad, end = []script.Deed{script.Fail, script.Pause}, []script.Deed{script.Pause, script.Work}
	case "patient":
		bad, end = []script.Deed{script.Fail, script.Late}, []script.Deed{script.OK, script.Work, script.Pause}
	case kindNode:
		bad, end = []script.Deed{script.Fail, script.Fail, script.Fail, script.Fail, script.Later, script.Cut}, []script.Deed{script.OK}
		if r.IntN(16) == 0 {
			end = []script.Deed{script.Reject}
		}
		return fails(r, bad, end)
	}
	if r.IntN(12) == 0 {
		end = []script.Deed{script.Reject, script.Fail}
	}
	return fails(r, bad, end)
}

// fails returns some failures, and an end.
func fails(r *rand.Rand, bad, end []script.Deed) (s []script.Deed) {
	for range r.IntN(3) {
		if r.IntN(2) == 0 {
			s = append(s, bad[r.IntN(len(bad))])
		}
	}
	return append(s, end[r.IntN(len(end))])
}

// insert makes one transaction and returns what became of it.
func (w *world) insert(ctx context.Context, rows []row, back, async bool) history.Commit {
	return w.inTransaction(ctx, back, async, func(ctx context.Context, tx pgx.Tx) error { return insertAll(ctx, tx, rows) })
}

// inTransaction does something in one transaction, which is rolled back or committed, and returns what became of it.
func (w *world) inTransaction(
	ctx context.Context, back, async bool, do func(context.Context, pgx.Tx) error,
) history.Commit {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
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
	if err := do(call, tx); err != nil || back {
		return history.RolledBack
	}
	switch err := tx.Commit(call); {
	case err == nil && async:
		return history.Async
	case err == nil:
		return history.Committed
	case effect.Answered(err):
		return history.RolledBack
	}
	return history.Unknown
}

func insertAll(ctx context.Context, tx pgx.Tx, rows []row) error {
	for i := range rows {
		for _, j := range rows[i].own {
			rows[i].After = append(rows[i].After, rows[j].ID)
		}
		if err := insertOne(ctx, tx, &rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// longAgo is when rows are due: at once, whatever becomes of the server's clock.
func longAgo() time.Time { return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) }

func insertOne(ctx context.Context, tx pgx.Tx, row *row) error {
	return tx.QueryRow(ctx, `INSERT INTO leasehold.task
			(type, key, payload, priority, run_at, max_attempts, batch_id, rollback_payload, lock, sequence, tenant, after, after_if)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, nullif($9, ''), nullif($10, ''), nullif($11, ''), $12, CASE WHEN $13 THEN 'any' END) RETURNING id`,
		cmp.Or(row.Under, row.Kind), row.Key, row.payload, row.Priority, longAgo().Add(row.RunAt), row.attempts, row.batch, row.rollBack, row.Lock, row.Sequence,
		row.Tenant, row.After, row.AfterAny).
		Scan(&row.ID)
}
