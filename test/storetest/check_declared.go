package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func declaredChecks() []Check {
	return []Check{
		{"noted and listed", declaredNoted},
		{"loaded again", declaredAgain},
		{"something else", declaredOther},
		{"by present sessions", declaredPresent},
		{"by an unknown session", declaredUnknown},
		{"many at once", declaredRace},
		{"the log of all blocks", declarationLog},
		{"the definitions of one", blockHistory},
	}
}

// blocks notes blocks of a session.
func (r *rig) blocks(list ...store.Block) {
	r.t.Helper()
	known, err := r.DeclareBlocks(r.ctx, r.session, list)
	require.NoError(r.t, err)
	require.True(r.t, known)
}

// declaredBlocks lists what is declared.
func (r *rig) declaredBlocks() []store.DeclaredBlock {
	r.t.Helper()
	list, err := r.DeclaredBlocks(r.ctx)
	require.NoError(r.t, err)
	return list
}

func block(kind, name, timeout string) store.Block {
	return store.Block{Kind: kind, Name: name, Fields: map[string]string{
		"timeout": fmt.Sprintf("%q", timeout), "webhook.url": "\"http://127.0.0.1/${task.id}\"", "x": "<<-A\n  é\n\"'\nA\n",
	}}
}

func declaredNoted(t testing.TB, h Harness) {
	r := newRig(t, h)
	require.Empty(t, r.declaredBlocks())
	a, b := block("task", "b", "1s"), block("schedule", "a", "2s")
	r.blocks(a, b)
	list := r.declaredBlocks()
	require.Len(t, list, 2)
	for i, want := range []store.Block{b, a} {
		got := list[i]
		require.Equal(t, want, got.Block)
		_, hash := want.Text()
		require.Equal(t, hash, got.Hash)
		require.Equal(t, []task.Session{r.session}, got.Sessions)
		require.Equal(t, []string{r.name, r.name}, []string{got.FirstBy, got.LastBy})
		near(t, r.Now(), got.FirstAt)
		near(t, r.Now(), got.LastAt)
	}
	require.NotEqual(t, list[0].Number, list[1].Number)
}

func declaredAgain(t testing.TB, h Harness) {
	r := newRig(t, h)
	a := block("task", "a", "1s")
	r.blocks(a)
	first := r.declaredBlocks()[0]
	r.Advance(t, time.Minute)
	o := r.other("second")
	o.blocks(a)
	r.beat(store.Heartbeat{})
	got := r.declaredBlocks()
	require.Len(t, got, 1)
	require.Equal(t, first.Number, got[0].Number)
	require.Equal(t, []task.Session{r.session, o.session}, got[0].Sessions)
	require.Equal(t, r.name, got[0].FirstBy)
	require.Equal(t, o.name, got[0].LastBy)
	require.InDelta(t, time.Minute, got[0].LastAt.Sub(got[0].FirstAt), float64(10*time.Second))
}

func declaredOther(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.blocks(block("task", "a", "1s"), block("task", "b", "1s"))
	before := r.declaredBlocks()
	r.blocks(block("task", "a", "2s"))
	got := r.declaredBlocks()
	require.Len(t, got, 1)
	require.Greater(t, got[0].Number, before[1].Number, "what was never loaded is newer")
	r.blocks(block("task", "a", "1s"))
	require.Equal(t, before[0].Number, r.declaredBlocks()[0].Number, "and what was loaded before keeps its number")
	r.blocks()
	require.Empty(t, r.declaredBlocks())
}

func declaredPresent(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.blocks(block("task", "a", "1s"))
	r.Advance(t, presence+time.Minute)
	require.Empty(t, r.declaredBlocks())
	r.beat(store.Heartbeat{})
	require.Len(t, r.declaredBlocks(), 1)
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.Empty(t, r.declaredBlocks())
}

func declaredUnknown(t testing.TB, h Harness) {
	r := newRig(t, h)
	known, err := r.DeclareBlocks(r.ctx, r.session+1000, []store.Block{block("task", "a", "1s")})
	require.NoError(t, err)
	require.False(t, known)
	require.Empty(t, r.declaredBlocks())
}

func declaredRace(t testing.TB, h Harness) {
	r := newRig(t, h)
	var all sync.WaitGroup
	failed := make(chan error, 4)
	for i := range 4 {
		o := r.other(fmt.Sprint("agent ", i))
		all.Go(func() {
			for round := range 5 {
				list := []store.Block{block("task", "a", "1s"), block("task", "b", fmt.Sprint(round)), block("task", "c", fmt.Sprint(i))}
				if i%2 == 0 {
					list[0], list[2] = list[2], list[0]
				}
				if _, err := o.DeclareBlocks(o.ctx, o.session, list); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	require.Empty(t, failed)
	require.Len(t, r.declaredBlocks(), 6)
}

// said writes definitions in short: what, its timeout, by how many present sessions.
func said(list []store.DeclaredBlock, err error) []string {
	if err != nil {
		return []string{err.Error()}
	}
	out := []string{}
	for _, b := range list {
		out = append(out, fmt.Sprint(b.Kind, " ", b.Name, " ", b.Fields["timeout"], " ", len(b.Sessions)))
	}
	return out
}

func declarationLog(t testing.TB, h Harness) {
	r := newRig(t, h)
	all := func() []string { return said(r.Declarations(r.ctx)) }
	require.Empty(t, all())
	r.blocks(block("task", "a", "1s"), block("task", "b", "1s"), block("schedule", "a", "9s"))
	r.blocks(block("task", "a", "2s"), block("task", "b", "1s"))
	require.Equal(t, []string{`schedule a "9s" 0`, `task a "2s" 1`, `task b "1s" 1`}, all(), "the newest, and what is gone")
	o := r.other("second")
	o.blocks(block("task", "a", "1s"))
	require.Equal(t, []string{`schedule a "9s" 0`, `task a "1s" 1`, `task a "2s" 1`, `task b "1s" 1`}, all(), "all that is declared")
	r.blocks(block("task", "c", "1s"))
	require.Equal(t, []string{`schedule a "9s" 0`, `task a "1s" 1`, `task b "1s" 0`, `task c "1s" 1`}, all(), "not the newest, but that in use")
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.NoError(t, o.Leave(o.ctx, o.session))
	require.Equal(t, []string{`schedule a "9s" 0`, `task a "2s" 0`, `task b "1s" 0`, `task c "1s" 0`}, all())
	require.Empty(t, r.declaredBlocks())
}

func blockHistory(t testing.TB, h Harness) {
	r := newRig(t, h)
	history := func(kind, name string, limit int) []string { return said(r.BlockHistory(r.ctx, kind, name, limit)) }
	require.Empty(t, history("task", "a", 10))
	for i, timeout := range []string{"1s", "2s", "3s", "1s"} {
		if i == 3 {
			r.Advance(t, time.Minute)
			r.beat(store.Heartbeat{})
		}
		r.blocks(block("task", "a", timeout), block("schedule", "a", "9s"), block("task", "A", "8s"))
	}
	require.Equal(t, []string{`task a "3s" 0`, `task a "2s" 0`, `task a "1s" 1`}, history("task", "a", 10))
	require.Equal(t, []string{`task a "3s" 0`, `task a "2s" 0`}, history("task", "a", 2))
	require.Equal(t, []string{`schedule a "9s" 1`}, history("schedule", "a", 2))
	require.Empty(t, history("chunks", "a", 2))
	require.Empty(t, history("task", "a\x00", 2))
	list, err := r.BlockHistory(r.ctx, "task", "a", 1000)
	require.NoError(t, err)
	for i, b := range list {
		_, hash := b.Text()
		require.Equal(t, hash, b.Hash)
		require.Equal(t, []string{r.name, r.name}, []string{b.FirstBy, b.LastBy})
		if i > 0 {
			require.Less(t, b.Number, list[i-1].Number)
		}
	}
	require.Equal(t, []task.Session{r.session}, list[2].Sessions)
	require.True(t, list[2].LastAt.After(list[0].FirstAt), "it was loaded again")
}
