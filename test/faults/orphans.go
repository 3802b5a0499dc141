//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/test/faults/history"
)

// undeclared is what the names of types begin with that no agent declares. The rest of the name is the type that operators give the rows.
const undeclared = "undeclared."

// orphanKinds are the types of which rows are inserted under such names, on either store.
func orphanKinds() []string { return []string{"plain", "held", "completed", kindReserve} }

// cancelOneIn is how often operators cancel the rows of such a type, where they would else move them.
const cancelOneIn = 4

// orphanOperators do so, sometimes at the same time.
const orphanOperators = 2

// produceOrphans inserts rows of types that no agent declares, until ctx ends.
func (w *world) produceOrphans(ctx context.Context) {
	if w.o.Orphans == 0 {
		return
	}
	r := rand.New(rand.NewPCG(w.o.Seed, 11))
	tick := time.NewTicker(time.Second / time.Duration(w.o.Orphans))
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		kind := orphanKinds()[r.IntN(len(orphanKinds()))]
		rows := make([]row, 1+r.IntN(3))
		for i := range rows {
			cohort := fmt.Sprintf("orphan-%d-%d", w.o.Seed, n)
			rows[i] = newRow(r, kind, w.o.Script, fmt.Sprintf("%s-%d", cohort, i), cohort)
			rows[i].Under, rows[i].Sequence = undeclared+kind, "" // a row that is moved may come after later ones of its sequence
			rows[i].Expects.States = append(rows[i].Expects.States, "cancelled")
		}
		fate := r.IntN(20)
		commit := w.insert(ctx, rows, fate < 2, fate == 2)
		for i := range rows {
			rows[i].Commit = commit
		}
		w.keep(rows)
	}
}

// operateOrphans has an operator move or cancel what waits under such a name, again and again until ctx ends.
func (w *world) operateOrphans(ctx context.Context, who int) {
	r := rand.New(rand.NewPCG(w.o.Seed, 1100+uint64(who)))
	for {
		sleepUntil(ctx, time.Now().Add(500*time.Millisecond+upTo(r, 2*time.Second)))
		if ctx.Err() != nil {
			return
		}
		o := history.OrphanOp{Verb: "move", Into: orphanKinds()[r.IntN(len(orphanKinds()))]}
		o.Type = undeclared + o.Into
		if r.IntN(cancelOneIn) == 0 {
			o.Verb, o.Into = "cancel", ""
		}
		w.changeOrphans(ctx, o)
	}
}

// moveAll moves what waits under such names, so that a run can end.
func (w *world) moveAll(ctx context.Context) {
	if w.o.Orphans == 0 {
		return
	}
	call, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := w.app.Query(call, `SELECT DISTINCT type FROM leasehold.task WHERE type LIKE '`+undeclared+`%' ORDER BY type`)
	if err != nil {
		return // the next look is in a moment
	}
	var types []string
	for rows.Next() {
		var typ string
		if err := rows.Scan(&typ); err != nil {
			break
		}
		types = append(types, typ)
	}
	rows.Close()
	for _, typ := range types {
		w.changeOrphans(ctx, history.OrphanOp{Verb: "move", Type: typ, Into: strings.TrimPrefix(typ, undeclared)})
	}
}

// changeOrphans does what an operator does, by the command line. The store may be away, and then nothing is known of the outcome.
func (w *world) changeOrphans(ctx context.Context, o history.OrphanOp) {
	o.Requested = history.Now()
	w.mu.Lock()
	w.orphanOps = append(w.orphanOps, o) // first, because it may be done and never answered
	w.mu.Unlock()
	args := []string{"orphans", o.Verb, o.Type}
	if o.Into != "" {
		args = append(args, o.Into)
	}
	args = append(args, "--yes", "--by", "operator", "--store", w.direct)
	for _, program := range []string{w.programs.Agent, w.programs.Next} {
		if program == "" {
			return
		}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
		cmd := exec.CommandContext(call, program, args...)
		cmd.Dir, cmd.Env = w.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir}
		out, err := cmd.CombinedOutput()
		cancel()
		if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 1) {
			w.fail(fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out))
		}
		if !strings.Contains(string(out), "use a newer leasehold") { // the store is not one of the next version, for which this one is too old
			return
		}
	}
}

// collectOrphans reads which rows have got another type. Operators have ended.
func (w *world) collectOrphans(t testing.TB, h *history.History) {
	t.Helper()
	query(t, w, `SELECT serial, id, old, new FROM journal_type ORDER BY serial`, func(rows pgx.Rows) error {
		var m history.TypeMove
		err := rows.Scan(&m.Serial, &m.ID, &m.From, &m.To)
		h.TypeMoves = append(h.TypeMoves, m)
		return err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	h.OrphanOps = slices.Clone(w.orphanOps)
}
