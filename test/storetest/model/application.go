package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Application is a transaction of an application's. What is not the rows that it keeps and completes takes effect at
// once: of that only what it does to named leases is rolled back.
type Application struct {
	s      *Store
	kept   []task.ID
	leases []*NamedLease // those that it holds
	ends   []func() store.Answer
	undo   []func() // what it did to named leases
}

// Begin begins a transaction of an application's.
func (s *Store) Begin() *Application { return &Application{s: s} }

// errLeaseLost is the error for an attempt that does not hold its row any more.
func errLeaseLost(id task.ID, f task.Fence) error {
	return fmt.Errorf("task %d is not held with fence %d any more: stop, and commit nothing", id, f)
}

// Hold keeps the row where it is until the transaction ends.
func (a *Application) Hold(ctx context.Context, id task.ID, f task.Fence) error {
	now, err := a.s.begin(ctx)
	if err != nil {
		return err
	}
	defer a.s.mu.Unlock()
	if r := a.s.live[id]; !r.attempted(f) || !now.Before(r.LeaseEnd) {
		return errLeaseLost(id, f)
	}
	a.keep(id)
	return nil
}

// keep keeps the row until the transaction ends. The store is the caller's.
func (a *Application) keep(id task.ID) {
	a.s.kept[id]++
	a.kept = append(a.kept, id)
}

// Complete ends the task well when the transaction commits.
func (a *Application) Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) error {
	now, err := a.s.begin(ctx)
	if err != nil {
		return err
	}
	defer a.s.mu.Unlock()
	switch {
	case len(result) > task.MaxResult:
		return errors.New("result must be 64 KiB at most")
	case !a.s.live[id].attempted(f) && !a.s.completed(id, f):
		return errLeaseLost(id, f)
	}
	a.keep(id)
	a.ends = append(a.ends, func() store.Answer { return a.s.complete(id, f, result, now) })
	return nil
}

// Ping takes in one ping.
func (a *Application) Ping(ctx context.Context, id task.ID, f task.Fence, p store.Ping) (*store.PingReply, error) {
	switch {
	case len(p.Progress) > store.MaxProgress:
		return nil, errors.New("progress must be 1 KiB at most")
	case len(p.Checkpoint) > store.MaxCheckpoint:
		return nil, errors.New("checkpoint must be 64 KiB at most")
	case p.NextWithin < 0:
		return nil, errors.New("next_within_s must be positive")
	}
	replies, err := a.s.takePings(ctx, []store.RemotePing{{ID: id, Fence: f, Ping: p}}, a.s.NumbersOnly)
	if err == nil && replies[0].Answer == store.Lost {
		err = errLeaseLost(id, f)
	}
	if err != nil {
		return nil, err
	}
	return &replies[0], nil
}

// Cancel calls a task off.
func (a *Application) Cancel(ctx context.Context, id task.ID, by string) (store.Became, error) {
	c, err := a.s.Cancel(ctx, id, by)
	if errors.Is(err, store.ErrNoTask) {
		err = fmt.Errorf("there is no task %d", id)
	}
	return c, err
}

// Commit ends the transaction: rows that it completed are archived, and those that it kept are free.
func (a *Application) Commit(context.Context) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.free()
	for _, end := range a.ends {
		if got := end(); got != store.Applied && got != store.Ended {
			return fmt.Errorf("complete: %s", got)
		}
	}
	a.ends = nil
	return nil
}

// Rollback ends the transaction, and nothing of it has been.
func (a *Application) Rollback(context.Context) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for _, undo := range slices.Backward(a.undo) {
		undo()
	}
	a.free()
	a.ends = nil
	return nil
}

func (a *Application) free() {
	for _, id := range a.kept {
		a.s.kept[id]--
	}
	for _, l := range a.leases {
		l.Kept--
	}
	a.kept, a.leases, a.undo = nil, nil, nil
}
