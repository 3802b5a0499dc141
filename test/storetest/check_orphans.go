package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

func orphanChecks() []Check {
	return []Check{
		{"listed by type", orphansListed},
		{"with who declared them", orphansDeclared},
	}
}

// orphans lists them without their times, which have to be these, in the order of the types.
func (r *rig) orphans(oldest ...time.Time) []store.OrphanType {
	r.t.Helper()
	list, err := r.Orphans(r.ctx)
	require.NoError(r.t, err)
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
