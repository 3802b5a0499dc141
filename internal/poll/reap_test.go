package poll_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// orphan makes a row whose session has died.
func (r *rig) orphan() task.ID {
	r.t.Helper()
	ctx := r.t.Context()
	dead, err := r.store.Join(ctx, store.Agent{Name: "dead", Presence: time.Hour})
	require.NoError(r.t, err)
	id := r.insert(1, of("undeclared"))[0]
	got, err := r.store.Claim(ctx, store.Claim{Session: dead, Number: 1, Wants: []store.Want{
		{Type: "undeclared", Phase: task.Run, N: 1, Window: time.Hour, Policy: r.opts.Types[0].Policy.Hash("a")},
	}})
	require.NoError(r.t, err)
	require.Len(r.t, got, 1)
	require.NoError(r.t, r.store.Leave(ctx, dead))
	return id
}

func TestAnAgentThatCannotSettleReapsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store)
		after(4 * time.Second)
		r.wire.setHook(func(op string) fault {
			if op == "settle" {
				return lostCall
			}
			return none
		})
		r.insert(1)
		after(time.Second)
		dead := r.orphan()
		after(5 * time.Second)
		require.Equal(t, task.Fence(1), r.get(dead).Fence)
		r.wire.setHook(nil)
		after(5 * time.Second)
		require.Equal(t, task.Fence(3), r.get(dead).Fence, "claimed, reaped, settled")
		require.Equal(t, task.StateRetryPending, r.get(dead).State)
		r.drain()
	})
}

func TestReapSaysWhatItSaw(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		var log lines
		r := newRig(t, db, logs(&log))
		gone := r.orphan()
		hanging := store.Agent{Name: "hung", Presence: 5 * time.Second}
		alive, err := db.Join(t.Context(), hanging)
		require.NoError(t, err)
		hung := r.insert(1, of("undeclared"))[0]
		_, err = db.Claim(t.Context(), store.Claim{Session: alive, Number: 1, Wants: []store.Want{
			{Type: "undeclared", Phase: task.Run, N: 1, Window: time.Second, Policy: r.opts.Types[0].Policy.Hash("a")},
		}})
		require.NoError(t, err)
		after(4 * time.Second)
		_, err = db.Present(t.Context(), store.Heartbeat{Session: alive, Agent: hanging})
		require.NoError(t, err)
		after(2 * time.Second)
		lost, late := r.get(gone).History[0], r.get(hung).History[0]
		require.Equal(t, "its agent is gone", lost.Error)
		require.Equal(t, "its lease ran out", late.Error)
		require.Equal(t, []string{"dead", "hung"}, []string{lost.Agent, late.Agent})
		require.NotEqual(t, lost.Session, lost.ReapedSession)
		require.Equal(t, r.opts.Agent.Name, lost.ReapedBy)
		require.Equal(t, alive, late.Session)
		line := `msg=reaped task=%d type=undeclared fence=1 attempt=1 agent=%s session=%d why="%s"`
		require.Contains(t, log.String(), fmt.Sprintf(line, gone, "dead", lost.Session, lost.Error))
		require.Contains(t, log.String(), fmt.Sprintf(line, hung, "hung", alive, late.Error))
		r.drain()
	})
}

func TestAnAgentWithoutRoomReapsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) {
			r.deeds.do = func(l *lease.Lease, _ *task.Type) task.Outcome {
				store.Keep(l.Task().ID)
				return task.Outcome{Verdict: task.Succeeded}
			}
		})
		r.insert(40, payload(1<<20))
		after(5 * time.Second)
		dead := r.orphan()
		after(5 * time.Second)
		require.Equal(t, task.Fence(1), r.get(dead).Fence)
		r.drain()
	})
}

// poisoned is a store that cannot settle one row, and fails the calls that it is in.
type poisoned struct {
	*wire
	id task.ID
}

func (p *poisoned) Settle(ctx context.Context, s task.Session, rows []store.Settlement) ([]store.Answer, error) {
	if slices.ContainsFunc(rows, func(e store.Settlement) bool { return e.ID == p.id }) {
		return nil, errors.New("that will not do")
	}
	return p.wire.Settle(ctx, s, rows)
}

func TestOneBadOutcomeDoesNotKeepTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		p := &poisoned{id: 3}
		r := newRig(t, store, func(r *rig) { p.wire, r.opts.Store = r.wire, p })
		ids := r.insert(200)
		after(20 * time.Second)
		r.all(slices.Delete(slices.Clone(ids), 2, 3), task.StateSucceeded, 1)
		r.drain()
	})
}

// In an outage that outlasts the leases, an agent settles the outcomes that it holds and does not reap their rows as lost.
func TestOwnOutcomesAreNotReapedAsLost(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) { r.deeds.do = takes(time.Second) })
		after(4 * time.Second)
		r.wire.setHook(func(op string) fault {
			if op == "settle" {
				return lostCall
			}
			return none
		})
		ids := r.insert(4)
		after(5 * time.Minute)
		r.wire.setHook(nil)
		after(time.Minute)
		r.all(ids, task.StateSucceeded, 1)
		for _, id := range ids {
			require.Equal(t, 1, r.get(id).Attempt)
		}
		r.drain()
	})
}

func TestFullAgentStillReaps(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) {
			r.opts.Workers = busySlots
			r.deeds.do = takes(15 * time.Second)
		})
		r.insert(busySlots)
		id := r.orphan()
		after(10 * time.Second)
		require.Equal(t, task.StateRetryPending, r.get(id).State, "reaped, though every slot is taken")
		r.drain()
	})
}
