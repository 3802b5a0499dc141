//go:build linux

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"

	"github.com/leasehold/leasehold/test/faults/effect"
	"github.com/leasehold/leasehold/test/faults/history"
)

// blocked are the sequences that a failed row blocks, with that row.
const blocked = `SELECT sequence, task_id FROM leasehold.sequences WHERE type = $1 AND state = 'blocked' ORDER BY sequence`

// What operators do about a sequence, by verb. Each returns the row that it is about, or how many.
const (
	skipSequence   = `SELECT leasehold.sequence_skip($1, $2, $3)::text`
	retrySequence  = `SELECT leasehold.sequence_retry($1, $2, $3)::text`
	cancelSequence = `SELECT leasehold.sequence_cancel($1, $2, $3::integer)::text`
)

// operateSequence resolves the failure that blocks a sequence, or cancels the rows of one that is blocked.
func (w *world) operateSequence(ctx context.Context, r *rand.Rand) {
	all := w.blocked(ctx)
	if len(all) == 0 {
		return
	}
	o := all[r.IntN(len(all))]
	o.Verb = []string{"skip", "skip", "retry", "retry", "cancel"}[r.IntN(5)]
	w.requestOfSequence(ctx, o)
}

// resolveAll skips what blocks sequences, so that a run can end.
func (w *world) resolveAll(ctx context.Context) {
	for _, o := range w.blocked(ctx) {
		o.Verb = "skip"
		w.requestOfSequence(ctx, o)
	}
}

// blocked returns an operation for each sequence that is blocked, without a verb. There is none where the server is away.
func (w *world) blocked(ctx context.Context) (all []history.Op) {
	call, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := w.app.Query(call, blocked, kindChained)
	if err != nil {
		return nil
	}
	defer rows.Close()
	for rows.Next() {
		o := history.Op{Kind: kindChained}
		if rows.Scan(&o.Sequence, &o.ID) == nil {
			all = append(all, o)
		}
	}
	return all
}

// requestOfSequence sends an operation on a sequence to the store and records the response, as request does.
func (w *world) requestOfSequence(ctx context.Context, o history.Op) {
	call, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	o.Requested = history.Now()
	sql, arg := map[string]string{"skip": skipSequence, "retry": retrySequence}[o.Verb], o.ID
	if o.Verb == "cancel" {
		const some = 3 // rows: fewer than may wait
		sql, arg, o.ID = cancelSequence, some, 0
	}
	var err error
	if w.o.SQLite {
		err = w.sequenceCommand(call, o)
	} else {
		err = w.app.QueryRow(call, sql, o.Kind, o.Sequence, arg).Scan(&o.Answer)
	}
	if err == nil || effect.Answered(err) {
		o.At = history.Now()
	}
	switch {
	case err != nil:
		o.Answer, o.Error = "", err.Error()
	case o.Verb == "retry":
		o.Answer = "pending"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ops = append(w.ops, o)
}

// sequenceCommand has the command do it where the store has no functions: the newer one, if the older one refuses, which it does where a newer
// schema does not let it in. It works in the file itself, so what it refuses has not happened.
func (w *world) sequenceCommand(ctx context.Context, o history.Op) error {
	err := w.sequenceBy(ctx, w.programs.Agent, o)
	if err != nil && w.programs.Next != "" {
		err = w.sequenceBy(ctx, w.programs.Next, o)
	}
	return err
}

func (w *world) sequenceBy(ctx context.Context, program string, o history.Op) error {
	args := []string{"sequence", o.Verb, o.Kind, o.Sequence, "--store", w.direct}
	if o.Verb != "cancel" {
		args = append(args, "--task", strconv.FormatInt(o.ID, 10))
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = w.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
		if cmd.ProcessState != nil && cmd.ProcessState.Exited() {
			err = effect.Local{Err: err}
		}
	}
	return err
}
