package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func orphanChecks() []Check {
	return []Check{
		{"listed by type", orphansListed},
		{"with who declared them", orphansDeclared},
		{"in whatever they wait for", orphansHeld},
		{"counted so far", orphansCapped},
		{"cancelled", orphansCancelled},
		{"cancelled in steps", orphansCancelledInSteps},
		{"refused", orphansRefused},
	}
}

// orphans lists them without their times, which have to be these, in the order of the types.
func (r *rig) orphans(oldest ...time.Time) []store.OrphanType {
	r.t.Helper()
	all, err := r.Orphans(r.ctx)
	require.NoError(r.t, err)
	require.False(r.t, all.More)
	list := all.List
	for i := range list {
		if oldest != nil {
			near(r.t, oldest[i], list[i].Oldest)
		}
		list[i].Oldest = time.Time{}
	}
	return list
}

func orphansListed(t testing.TB, h Harness) {
	r := newRig(t, h)
	require.Empty(t, r.orphans())
	r.insert(1)
	r.Insert(t, store.EnqueueRequest{Type: "b"}, store.EnqueueRequest{Type: "c"})
	r.Advance(t, 2*time.Minute)
	r.Insert(t, store.EnqueueRequest{Type: "b", In: time.Hour}, store.EnqueueRequest{Type: "b"}, store.EnqueueRequest{Type: "A"})
	require.Equal(t, []store.OrphanType{{Type: "A", Waiting: 1}, {Type: "b", Waiting: 3}, {Type: "c", Waiting: 1}},
		r.orphans(r.Now(), r.Now().Add(-2*time.Minute), r.Now().Add(-2*time.Minute)))

	require.Len(t, r.claim(want("b", 1), want("c", 1)), 2)
	require.Equal(t, []store.OrphanType{{Type: "A", Waiting: 1}, {Type: "b", Waiting: 2, Running: 1}}, r.orphans(r.Now(), r.Now()),
		"what runs is no orphan")
	a := agent("observer")
	a.Types, a.Workers = []string{"A"}, 0
	_, err := r.Join(r.ctx, a)
	require.NoError(t, err)
	require.Len(t, r.orphans(), 2, "an observer claims nothing")
	a.Types, a.Workers = []string{"x", "b"}, 1
	s, err := r.Join(r.ctx, a)
	require.NoError(t, err)
	require.Equal(t, []store.OrphanType{{Type: "A", Waiting: 1}}, r.orphans())
	require.NoError(t, r.Leave(r.ctx, s))
	require.Len(t, r.orphans(), 2)
}

// orphansHeld: rows that wait for a lock, their turn, others, a rollback or their tenant's turn count, too.
func orphansHeld(t testing.TB, h Harness) {
	r := newRig(t, h)
	ids := r.Insert(t, store.EnqueueRequest{Type: "a", Lock: "l"}, store.EnqueueRequest{Type: "a", Lock: "l"},
		store.EnqueueRequest{Type: "b", Sequence: "s"}, store.EnqueueRequest{Type: "b", Sequence: "s"}, store.EnqueueRequest{Type: "b", Sequence: "s"},
		store.EnqueueRequest{Type: "c", Tenant: "t"}, store.EnqueueRequest{Type: "c", Tenant: "t", Region: "sg"})
	r.Insert(t, store.EnqueueRequest{Type: "d", After: []task.ID{ids[0]}}, store.EnqueueRequest{Type: "e"})
	require.Len(t, r.claim(want("a", 2), want("b", 3)), 2, "the others are held back")
	require.Equal(t, []store.OrphanType{
		{Type: "a", Waiting: 1, Running: 1}, {Type: "b", Waiting: 2, Running: 1}, {Type: "c", Waiting: 2}, {Type: "d", Waiting: 1},
		{Type: "e", Waiting: 1},
	}, r.orphans())
}

// orphansCapped: of many rows a part is counted, and less of each type where there are more types.
func orphansCapped(t testing.TB, h Harness) {
	r := newRig(t, h)
	var many []store.EnqueueRequest
	for n := range 70 {
		many = append(many, store.EnqueueRequest{Type: fmt.Sprintf("few %02d", n)})
	}
	most := int64(store.CountedOf(len(many) + 2))
	for range most {
		many = append(many, store.EnqueueRequest{Type: "just"}, store.EnqueueRequest{Type: "more"})
	}
	r.Insert(t, append(many, store.EnqueueRequest{Type: "more", Tenant: "t"})...)
	found := map[string]store.OrphanType{}
	for _, o := range r.orphans() {
		found[o.Type] = o
	}
	require.Len(t, found, 72)
	require.Equal(t, store.OrphanType{Type: "few 03", Waiting: 1}, found["few 03"])
	require.Equal(t, store.OrphanType{Type: "just", Waiting: most}, found["just"])
	require.Equal(t, store.OrphanType{Type: "more", Waiting: most, Capped: true}, found["more"])
}

func orphansDeclared(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.Insert(t, store.EnqueueRequest{Type: "a"}, store.EnqueueRequest{Type: "old"}, store.EnqueueRequest{Type: "x"})
	load := func(name, aliases string) {
		t.Helper()
		known, err := r.DeclareBlocks(r.ctx, r.session, []store.Block{
			{Kind: "task", Name: name, Fields: map[string]string{"aliases": aliases}}, {Kind: "chunks", Name: "x"},
		})
		require.NoError(t, err)
		require.True(t, known)
	}
	load("a", "[]")
	r.Advance(t, time.Minute)
	load("new", `["older", "old"]`)
	at := map[string]time.Time{"a": r.Now().Add(-time.Minute), "old": r.Now()}
	as := map[string]string{}
	for _, o := range r.orphans() {
		if o.DeclaredAt != nil {
			near(t, at[o.Type], *o.DeclaredAt)
			require.Equal(t, r.name, o.DeclaredBy)
			as[o.Type] = o.DeclaredAs
		}
	}
	require.Equal(t, map[string]string{"a": "a", "old": "new"}, as)
}

// stepped makes steps until they are done, asserts that none goes too far, and returns their sum.
func (r *rig) stepped(do func(context.Context, store.OrphanStep) (store.OrphansStepped, error), o store.OrphanStep) (sum store.OrphansStepped, steps int) {
	r.t.Helper()
	for {
		one, err := do(r.ctx, o)
		require.NoError(r.t, err)
		require.LessOrEqual(r.t, one.Changed, store.OrphansChanged)
		sum.Changed += one.Changed
		sum.RollsBack += one.RollsBack
		sum.Left = append(sum.Left, one.Left...)
		steps++
		require.Less(r.t, steps, 100)
		if one.Done {
			return sum, steps
		}
		require.NotEqual(r.t, o.From, one.Next, "a step goes on")
		o.From = one.Next
	}
}

func orphansCancelled(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	old := store.EnqueueRequest{Type: "old"}
	back := r.rowIn(old, task.StateRollbackPending, true)
	failed := r.rowIn(old, task.StateRetryPending, true)
	released := r.rowIn(old, task.StateRetryPending, false)
	running := r.rowIn(old, task.StateRunning, true)
	pending := r.rowIn(store.EnqueueRequest{Type: "old", Key: "k", Sequence: "s"}, task.StatePending, false)
	follows, _, err := r.Enqueue(r.ctx, store.EnqueueRequest{Type: "old", Key: "k", OnLive: store.OnLiveAgain})
	require.NoError(t, err)
	others := r.Insert(t, store.EnqueueRequest{Type: "b"}, store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: "olde"})
	step := store.OrphanStep{Type: "old", By: "alice", Reason: "the service is gone", Preview: true}
	want := store.OrphansStepped{Changed: 3, RollsBack: 1}
	r.audited(func() {
		got, _ := r.stepped(r.CancelOrphans, step)
		require.Equal(t, want, got)
		require.Equal(t, task.StateRetryPending, r.state(failed), "a preview changes nothing")
	})
	step.Preview = false
	note := func(id task.ID, answer task.State) Audited {
		return Audited{Who: "alice", Verb: "cancel", Task: id, Reason: step.Reason, Answer: string(answer)}
	}
	r.audited(func() {
		got, _ := r.stepped(r.CancelOrphans, step)
		require.Equal(t, want, got)
	}, note(failed, task.StateRollbackPending), note(released, task.StateCancelled), note(pending, task.StateCancelled),
		Audited{Who: "alice", Verb: "cancel", Type: "old", Reason: step.Reason, Answer: "cancelled 3"})
	for id, state := range map[task.ID]task.State{
		back: task.StateRollbackPending, failed: task.StateRollbackPending, released: task.StateCancelled, running: task.StateRunning,
		pending: task.StateCancelled, follows: task.StatePending, others[0]: task.StatePending, others[1]: task.StatePending,
		others[2]: task.StatePending,
	} {
		require.Equal(t, state, r.state(id), id)
	}
	require.Zero(t, r.get(follows).Follows, "it has become a task")
	got, _ := r.stepped(r.CancelOrphans, step)
	require.Equal(t, store.OrphansStepped{Changed: 1}, got, "the follower")
	r.audited(func() {
		got, _ := r.stepped(r.CancelOrphans, step)
		require.Zero(t, got, "a repeat changes nothing")
	})
}

func orphansCancelledInSteps(t testing.TB, h Harness) {
	r := newRig(t, h)
	rows := make([]store.EnqueueRequest, store.OrphansChanged+2)
	for i := range rows {
		rows[i].Type = "old"
	}
	all := r.Insert(t, rows...)
	r.insert(1)
	step := store.OrphanStep{Type: "old", Preview: true}
	got, steps := r.stepped(r.CancelOrphans, step)
	require.Equal(t, store.OrphansStepped{Changed: len(all)}, got)
	require.Equal(t, 2, steps)
	step.Preview = false
	want := store.OrphansStepped{Changed: len(all)}
	release := r.LockRow(t, all[3])
	if release != nil { // a store without locks on rows has nothing to pass over
		want = store.OrphansStepped{Changed: len(all) - 1, Left: []store.OrphanLeft{{ID: all[3], Reason: store.OrphanBusy, Rows: 1}}}
	}
	got, steps = r.stepped(r.CancelOrphans, step)
	require.Equal(t, want, got)
	require.Equal(t, 2, steps)
	if release != nil {
		require.Equal(t, []store.OrphanType{{Type: "old", Waiting: 1}}, r.orphans())
		release()
		got, _ = r.stepped(r.CancelOrphans, step)
		require.Equal(t, store.OrphansStepped{Changed: 1}, got)
	}
	require.Empty(t, r.orphans())
}

func orphansRefused(t testing.TB, h Harness) {
	r := newRig(t, h)
	id := r.insert(1)[0]
	r.noted(func() {
		for _, preview := range []bool{true, false} {
			_, err := r.CancelOrphans(r.ctx, store.OrphanStep{Type: kind, Preview: preview})
			refusal(t, "Go", err, `agent "first" declares the type "suite.work": its tasks are no orphans`)
			for want, o := range map[string]store.OrphanStep{
				"type must have 1 to 255 bytes":    {Type: strings.Repeat("x", 256)},
				"reason must be 512 bytes at most": {Type: "a", Reason: strings.Repeat("x", 513)},
				"must have 1 to 255 bytes":         {},
			} {
				o.Preview = preview
				_, err := r.CancelOrphans(r.ctx, o)
				require.ErrorContains(t, err, want)
			}
		}
	})
	require.Equal(t, task.StatePending, r.state(id))
}
