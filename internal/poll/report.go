package poll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ErrNotAsync says that a task that was not accepted (202) reported its failure: its own answer does that.
var ErrNotAsync = errors.New("only a task that was accepted with 202 reports its failure this way")

// reportFor is how long a task that reports its failure waits for that to be settled.
const reportFor = 10 * time.Second

// Ping handles a ping of any attempt, whichever session holds its row.
func (e *Engine) Ping(ctx context.Context, id task.ID, f task.Fence, p store.Ping) (store.PingReply, error) {
	return e.keeper.Ping(ctx, id, f, p)
}

// Complete ends an attempt as succeeded because its task says so, whichever session holds its row: Applied, or Ended where it has
// said so before; both are durable. Busy, and every error: it is to be said again.
func (e *Engine) Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) (store.Answer, error) {
	l := e.keeper.HeldBy(id, f)
	a, err := e.keeper.Complete(ctx, id, f, result)
	if a == store.Applied && l != nil && l.Detached() {
		e.endedElsewhere(l.Task(), task.Succeeded)
	}
	return a, err
}

// Fail ends an attempt that was accepted as failed, or as rejected where it is not retryable, because its task says so.
// It answers as Complete does, once that is settled. Its error is ErrNotAsync where the attempt has an answer of its own
// to give.
func (e *Engine) Fail(ctx context.Context, id task.ID, f task.Fence, reason string, retryable bool) (store.Answer, error) {
	if e.o.Adopter == nil || !e.Joined() {
		return store.Busy, errors.New("fail a task: the agent is not ready")
	}
	l := e.keeper.HeldBy(id, f)
	if l != nil {
		if _, _, async := l.Policy().Liveness(l.Task().Phase()); !async {
			return store.Lost, ErrNotAsync
		}
	}
	var r *store.Reaped
	var a store.Answer
	err := e.call(ctx, "adopt", func(ctx context.Context) (err error) {
		r, a, err = e.o.Adopter.Adopt(ctx, e.keeper.Session(), id, f, reapFor)
		return err
	})
	if err != nil {
		return store.Busy, fmt.Errorf("fail task %d: %w", id, err)
	}
	if l != nil && (a == store.Applied || a == store.Ended) {
		e.keeper.HasFailed(l)
	}
	if a != store.Applied {
		return a, nil
	}
	if err := e.learn(ctx, []store.Reaped{*r}); err != nil {
		return store.Busy, err // it is reaped when reapFor is over
	}
	out := task.Outcome{Verdict: task.Failed, Error: reason}
	if !retryable {
		out.Verdict = task.Rejected
	}
	done := make(chan store.Answer, 1)
	e.reap(r, e.policy(&r.Task), out, done) //nolint:contextcheck // it is settled even if the caller no longer waits
	timer := time.NewTimer(reportFor)
	defer timer.Stop()
	select {
	case a = <-done:
		return a, nil
	case <-ctx.Done():
	case <-timer.C:
	}
	return store.Busy, nil
}
