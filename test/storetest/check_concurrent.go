package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// many is how many agents work at once, each by a connection of its own.
const many = 8

func concurrentChecks() []Check {
	return []Check{
		{"each row is claimed once", concurrentClaims},
		{"claims and settlements side by side", concurrentWork},
		{"a sweep is won by one", concurrentSweeps},
		{"one of many settles a row", concurrentSettle},
		{"one key, many producers", concurrentKey},
		{"many sessions", concurrentJoins},
		{"thieves", concurrentThieves},
		{"many retry one row", retryRace},
		{"many roll one row back", rollbackRace},
		{"rollbacks against retries", rollbackAgainstRetry},
		{"one agent carries a rollback on", rollbackStepRace},
	}
}

// crew is many agents on one store.
func crew(t testing.TB, h Harness) []*rig {
	t.Helper()
	agents := []*rig{newRig(t, h)}
	for i := 1; i < many; i++ {
		agents = append(agents, agents[0].other(fmt.Sprint("agent ", i)))
	}
	return agents
}

// together runs f for each agent at once. f must not use r.t: it is not in the check's goroutine.
func together[R interface{ base() *rig }](agents []R, f func(ctx context.Context, r R) error) {
	first := agents[0].base()
	first.t.Helper()
	g, ctx := errgroup.WithContext(first.ctx)
	for _, r := range agents {
		g.Go(func() error { return f(ctx, r) })
	}
	require.NoError(first.t, g.Wait())
}

// base is the rig of a kind of rig that embeds one.
func (r *rig) base() *rig { return r }

// tally counts rows by id, from many goroutines.
type tally struct {
	mu   sync.Mutex
	seen map[task.ID]int
}

func (c *tally) add(rows ...task.Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[task.ID]int{}
	}
	for _, r := range rows {
		c.seen[r.ID]++
	}
}

// once asserts that just these rows were seen, and each once.
func (c *tally) once(t testing.TB, ids []task.ID) {
	t.Helper()
	require.Len(t, c.seen, len(ids))
	for _, id := range ids {
		require.Equal(t, 1, c.seen[id], "row %d", id)
	}
}

// patience is how many claims in a row may come back empty before an agent takes the store to be empty: rows that
// another claim has locked are passed over.
const patience = 10

func concurrentClaims(t testing.TB, h Harness) {
	agents := crew(t, h)
	reqs := make([]store.EnqueueRequest, 400)
	for i := range reqs {
		reqs[i] = store.EnqueueRequest{Type: []string{kind, "b"}[i%2], Priority: i % 3}
	}
	all := agents[0].Insert(t, reqs...)
	var seen tally
	together(agents, func(ctx context.Context, r *rig) error {
		for empty := 0; empty < patience; {
			r.claims++
			wants := []store.Want{want(kind, 7), want("b", 3)}
			rows, err := r.Claim(ctx, store.Claim{Session: r.session, Number: r.claims, Wants: wants})
			if err != nil {
				return err
			}
			got := map[string]int{}
			for _, row := range rows {
				got[row.Type]++
			}
			if got[kind] > 7 || got["b"] > 3 {
				return fmt.Errorf("wanted 7 and 3, and got %v", got)
			}
			if len(rows) == 0 {
				empty++
				continue
			}
			empty = 0
			seen.add(rows...)
		}
		return nil
	})
	seen.add(agents[0].claim(want(kind, 400), want("b", 400))...)
	seen.once(t, all)
}

func concurrentWork(t testing.TB, h Harness) {
	agents := crew(t, h)
	all := agents[0].insert(100)
	var seen tally
	var finished atomic.Int64
	together(agents, func(ctx context.Context, r *rig) error {
		for ctx.Err() == nil && finished.Load() < int64(len(all)) {
			n, err := r.workOnce(ctx, &seen)
			if err != nil {
				return err
			}
			finished.Add(n)
		}
		return ctx.Err()
	})
	seen.once(t, all)
	for _, id := range all {
		info := agents[0].get(id)
		require.Equal(t, task.StateSucceeded, info.State)
		require.Equal(t, 2, info.Attempt, "each failed once")
		require.EqualValues(t, 4, info.Fence)
		require.Len(t, info.History, 2)
	}
}

// workOnce claims a few rows, and fails first attempts and finishes second ones, which it counts.
func (r *rig) workOnce(ctx context.Context, seen *tally) (finished int64, err error) {
	r.claims++
	rows, err := r.Claim(ctx, store.Claim{Session: r.session, Number: r.claims, Wants: []store.Want{want(kind, 5)}})
	if err != nil {
		return 0, err
	}
	var ends []store.Settlement
	for _, row := range rows {
		if row.Attempt == 1 {
			ends = append(ends, retry(row, 0))
			continue
		}
		ends = append(ends, finish(row))
		seen.add(row)
		finished++
	}
	var applied, ended atomic.Int64
	if err := r.settleAll(ctx, r.session, ends, &applied, &ended); err != nil {
		return 0, err
	}
	if int(applied.Load()) != len(ends) {
		return 0, fmt.Errorf("of %d settlements by the holder, %d were applied", len(ends), applied.Load())
	}
	return finished, nil
}

func concurrentSweeps(t testing.TB, h Harness) {
	agents := crew(t, h)
	dead := agents[0].other("dead")
	all := dead.insert(60)
	require.Len(t, dead.claim(want(kind, 60)), 60)
	require.NoError(t, dead.Leave(dead.ctx, dead.session))
	var seen tally
	together(agents, func(ctx context.Context, r *rig) error {
		for empty, calls := 0, 0; empty < patience && calls < 10*patience; calls++ {
			rows, err := r.Sweep(ctx, r.session, 5, reapFor, r.view())
			if err != nil {
				return err
			}
			if len(rows) > 5 {
				return fmt.Errorf("asked for 5 rows, and got %d", len(rows))
			}
			if len(rows) == 0 {
				empty++
			}
			for _, row := range rows {
				seen.add(row.Task)
			}
		}
		return nil
	})
	for _, row := range agents[0].sweep(100) {
		seen.add(row.Task)
	}
	seen.once(t, all)
}

func concurrentSettle(t testing.TB, h Harness) {
	agents := crew(t, h)
	r := agents[0]
	r.insert(20)
	rows := r.claim(want(kind, 20))
	var applied, ended atomic.Int64
	together(agents, func(ctx context.Context, o *rig) error {
		// Every agent speaks for the holder, as one does whose replies are lost; half of them finish, half retry.
		ends := make([]store.Settlement, len(rows))
		for i, row := range rows {
			if ends[i] = finish(row); o.session%2 == 0 {
				ends[i] = retry(row, time.Hour)
			}
		}
		return o.settleAll(ctx, r.session, ends, &applied, &ended)
	})
	require.EqualValues(t, len(rows), applied.Load(), "each row was settled once")
	require.EqualValues(t, len(rows)*(many-1), ended.Load())
	for _, row := range rows {
		require.Equal(t, row.Fence+1, r.get(row.ID).Fence)
	}
	require.Len(t, r.list(store.TaskFilter{}), len(rows))
}

// settleAll settles, and asks again for what is busy: another's claim may look at a row for a moment.
func (r *rig) settleAll(
	ctx context.Context, s task.Session, ends []store.Settlement, applied, ended *atomic.Int64,
) error {
	for len(ends) > 0 {
		answers, err := r.Settle(ctx, s, ends)
		if err != nil {
			return err
		}
		var again []store.Settlement
		for i, a := range answers {
			switch a {
			case store.Applied:
				applied.Add(1)
			case store.Ended:
				ended.Add(1)
			case store.Busy:
				again = append(again, ends[i])
			default:
				return fmt.Errorf("settling row %d of its holder: %s", ends[i].ID, a)
			}
		}
		ends = again
	}
	return nil
}

func concurrentKey(t testing.TB, h Harness) {
	agents := crew(t, h)
	var fresh atomic.Int64
	var mu sync.Mutex
	ids := map[task.ID]bool{}
	together(agents, func(ctx context.Context, r *rig) error {
		for range 5 {
			id, answer, err := r.Enqueue(ctx, store.EnqueueRequest{Type: kind, Key: "k"})
			if err != nil {
				return err
			}
			if answer == store.EnqueuedInserted {
				fresh.Add(1)
			}
			mu.Lock()
			ids[id] = true
			mu.Unlock()
		}
		return nil
	})
	require.EqualValues(t, 1, fresh.Load())
	require.Len(t, ids, 1)
	require.Len(t, agents[0].list(store.TaskFilter{}), 1)
}

func concurrentJoins(t testing.TB, h Harness) {
	agents := crew(t, h)
	var mu sync.Mutex
	seen := map[task.Session]bool{}
	together(agents, func(ctx context.Context, r *rig) error {
		for range 5 {
			a := agent("crowd")
			p := task.Policy{Timeout: time.Minute}
			a.Policies = map[task.PolicyHash]store.NamedPolicy{p.Hash("a"): {Type: kind, Policy: p}}
			s, err := r.Join(ctx, a)
			if err != nil {
				return err
			}
			mu.Lock()
			seen[s] = true
			mu.Unlock()
		}
		return nil
	})
	require.Len(t, seen, 5*many)
	require.Equal(t, 6*many, agents[0].stats().AgentsPresent)
}
