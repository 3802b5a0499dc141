package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

func chunkDeclaredChecks() []Check {
	return []Check{
		{"a plan is inserted as it is declared", chunkDeclared},
		{"a session that is not known", chunkDeclaredUnknown},
		{"the newest declaration wins", chunkNewest},
		{"a restart is no new load", chunkRestart},
		{"another table, key or task is refused", chunkOther},
		{"one that is over follows from now on", chunkFollows},
		{"many agents declare at once", chunkDeclareRace},
	}
}

// declaration is that of a plan, with so many rows a chunk.
func declaration(name string, rows int) store.ChunkDeclaration {
	return store.ChunkDeclaration{
		Spec: store.ChunkSpec{
			Name: name, Task: kind, Table: "event", Key: "id", Size: store.ChunkSize{Start: rows, Min: 1, Max: 2000, Target: 1500 * time.Millisecond},
			Ahead: 7,
		},
		Source: store.ChunkSource{URL: "postgres://app@db/app", Where: `status = 0 AND kind <> 'ü"'`, OldestTransaction: time.Minute, When: "SELECT true"},
	}
}

func (r *rig) declares(list ...store.ChunkDeclaration) store.DeclaredChunks {
	r.t.Helper()
	did, err := r.DeclareChunks(r.ctx, r.session, list)
	require.NoError(r.t, err)
	require.True(r.t, did.Known)
	return did
}

func chunkDeclared(t testing.TB, h Harness) {
	r := newRig(t, h)
	d := declaration("p", 10)
	for range 2 {
		require.Equal(t, store.DeclaredChunks{Known: true, InForce: []string{"p"}}, r.declares(d))
	}
	look := r.lookPlan("p")
	require.Equal(t, d.Spec, look.Spec)
	require.Equal(t, store.ChunkPlan{Version: look.Plan.Version}, look.Plan)
	require.Equal(t, store.DeclaredChunks{Known: true, InForce: []string{"a", "p"}}, r.declares(d, declaration("a", 5)))
	require.Equal(t, store.DeclaredChunks{Known: true}, r.declares())
	require.Equal(t, d.Spec, r.lookPlan("p").Spec, "it stays")
}

func chunkDeclaredUnknown(t testing.TB, h Harness) {
	r := newRig(t, h)
	did, err := r.DeclareChunks(r.ctx, r.session+1000, []store.ChunkDeclaration{declaration("p", 10)})
	require.NoError(t, err)
	require.Equal(t, store.DeclaredChunks{}, did)
	_, err = r.LookPlan(r.ctx, "p", 1)
	require.ErrorIs(t, err, store.ErrNoChunkPlan)
}

func chunkNewest(t testing.TB, h Harness) {
	r := newRig(t, h)
	older, newer := declaration("p", 10), declaration("p", 20)
	r.declares(older)
	before := r.lookPlan("p").Plan.Version
	o := r.other("b")
	require.Equal(t, []string{"p"}, o.declares(newer).InForce)
	require.Equal(t, 20, r.lookPlan("p").Spec.Size.Start)
	require.Greater(t, r.lookPlan("p").Plan.Version, before, "a step that was decided before does not apply")
	require.Equal(t, store.DeclaredChunks{Known: true}, r.declares(older))
	err := o.Leave(r.ctx, o.session)
	require.NoError(t, err)
	require.Equal(t, []string{"p"}, r.declares(older).InForce, "nobody present declares the newer")
	require.Equal(t, 10, r.lookPlan("p").Spec.Size.Start)
}

func chunkRestart(t testing.TB, h Harness) {
	r := newRig(t, h)
	older, newer := declaration("p", 10), declaration("p", 20)
	r.declares(older)
	o := r.other("b")
	o.declares(newer)
	again := r.other("a")
	require.Empty(t, again.declares(older).InForce)
	require.Equal(t, 20, r.lookPlan("p").Spec.Size.Start)
}

func chunkOther(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declares(declaration("p", 10))
	before := r.lookPlan("p")
	o := r.other("b")
	for _, change := range []func(*store.ChunkSpec){
		func(s *store.ChunkSpec) { s.Task = "other" }, func(s *store.ChunkSpec) { s.Table = "other" }, func(s *store.ChunkSpec) { s.Key = "other" },
	} {
		d := declaration("p", 30)
		change(&d.Spec)
		require.Equal(t, store.DeclaredChunks{Known: true, Refused: []string{"p"}}, o.declares(d))
		require.Equal(t, before.Spec, r.lookPlan("p").Spec)
		require.Equal(t, before.Plan, r.lookPlan("p").Plan)
	}
	require.Equal(t, []string{"p"}, r.declares(declaration("p", 10)).InForce)
}

func chunkFollows(t testing.TB, h Harness) {
	r := newRig(t, h)
	d := declaration("p", 10)
	r.declares(d)
	r.begins("p")
	r.planStep("p", func(s *store.ChunkStep) {
		cuts(s, 10)
		seals(s)
		s.After.Over, s.After.High, s.After.Size = true, chunkKey(10), 17
	})
	d.Spec.Ahead = 9
	r.declares(d)
	require.True(t, r.lookPlan("p").Plan.Over)
	d.Spec.Follow = time.Minute
	r.declares(d)
	look := r.lookPlan("p")
	require.Equal(t, store.ChunkPlan{Version: look.Plan.Version, Pass: 1, High: chunkKey(10)}, look.Plan)
	require.Equal(t, d.Spec, look.Spec)
}

func chunkDeclareRace(t testing.TB, h Harness) {
	r := newRig(t, h)
	const agents = 6
	won := make(chan int, agents)
	for i := range agents {
		o := r.other("b")
		go func() {
			did, err := o.DeclareChunks(r.ctx, o.session, []store.ChunkDeclaration{declaration("p", 10+i%2), declaration("q", 10)})
			if err != nil || !did.Known || len(did.Refused) > 0 {
				t.Errorf("agent %d: %v %v", i, did, err)
			}
			won <- len(did.InForce)
		}()
	}
	for range agents {
		<-won
	}
	require.Equal(t, 10, r.lookPlan("q").Spec.Size.Start)
	require.Equal(t, store.ChunkPlan{Version: r.lookPlan("q").Plan.Version}, r.lookPlan("q").Plan)
}
