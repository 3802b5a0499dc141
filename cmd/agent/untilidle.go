package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	idleWithin = 5 * time.Second       // what is due so soon is waited for: the first retries, by default
	idleFirst  = 20 * time.Millisecond // between two looks, and twice as long after each in a row that found something left
	idleLast   = 500 * time.Millisecond
)

// untilIdle ends an agent once nothing is left that it could run.
type untilIdle struct {
	timeout time.Duration // 0: none

	mu   sync.Mutex
	idle bool
	left string // what kept it from being idle when it was looked at last
	late bool   // the timeout has passed
}

// part is the part of the agent that looks. Once the timeout has passed the agent drains, as after a signal, and the part waits for its end.
func (u *untilIdle) part(a *agent) part {
	return untilCancelled("until idle", func(ctx context.Context) error {
		looking, cancel := ctx, context.CancelFunc(func() {})
		if u.timeout > 0 {
			looking, cancel = context.WithTimeout(ctx, u.timeout)
		}
		defer cancel()
		if u.wait(looking, a) {
			a.log.Info("idle: nothing is left to run", "within", idleWithin)
			return nil
		}
		if ctx.Err() == nil {
			u.set(func() { u.late = true })
			a.orders.expire(u.timeout)
			<-ctx.Done()
		}
		return nil
	})
}

// wait looks until the agent is idle, or ctx ends.
func (u *untilIdle) wait(ctx context.Context, a *agent) bool {
	for rest := idleFirst; ; rest = min(2*rest, idleLast) {
		left, err := a.engine.AtRest(ctx, idleWithin, a.carryOn)
		if err != nil {
			left = "the store does not answer: " + oneLine(err.Error())
		}
		if ctx.Err() == nil {
			u.set(func() { u.left, u.idle = left, left == "" })
		}
		timer := time.NewTimer(rest)
		if left == "" {
			timer.Stop()
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
}

func (u *untilIdle) set(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f()
}

// result is the error of an agent that has ended well.
func (u *untilIdle) result() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.idle:
		return nil
	case u.late:
		return &failure{code: exitCancelled, err: fmt.Errorf("not idle within %s: %s", u.timeout, u.left)}
	}
	return &failure{code: exitCancelled, err: errors.New("stopped before it was idle: " + u.left)}
}

// carryOn does at once what agents do beside running tasks and from which tasks follow: for batches, schedules and chunk plans. It returns
// what is still to come of that; "": nothing.
func (a *agent) carryOn(ctx context.Context) (left string, err error) {
	l := a.batches.Load()
	if l == nil {
		return "batches are not looked at yet", nil
	}
	if changed, err := l.Settle(ctx); changed || err != nil {
		return "batches are being carried on", err
	}
	late, waits, err := a.fires.Fire(ctx)
	if err != nil || late || !a.declarer.Settled() {
		return "schedules are being declared or fired", err
	}
	for _, t := range a.cfg.Load().Tasks {
		for name, in := range waits {
			if in <= idleWithin && slices.Contains(t.Names(), name) {
				return "a schedule of " + name + " waits for the end of its last task", nil
			}
		}
	}
	plan, err := a.chunks.Left(ctx)
	if plan != "" && err == nil {
		left = "the chunk plan " + plan + " has more to plan"
	}
	return left, err
}
