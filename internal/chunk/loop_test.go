package chunk_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// looped is a loop of one plan, with all that it needs.
type looped struct {
	mu     sync.Mutex // of all of it: the loop calls from goroutines of its own
	loop   *chunk.Loop
	plan   chunk.Plan
	named  []string      // each declaration's names
	takes  time.Duration // a declaration
	w      *world
	did    store.DeclaredChunks
	log    bytes.Buffer
	opened int
	check  error // of the source
	waits  string
	joined bool
	end    func()
}

func (l *looped) DeclareChunks(_ context.Context, _ task.Session, list []store.ChunkDeclaration) (store.DeclaredChunks, error) {
	<-time.After(l.takes)
	l.mu.Lock()
	defer l.mu.Unlock()
	names, did := "", l.did
	did.InForce = nil
	for i := range list {
		names += list[i].Spec.Name
		if slices.Contains(l.did.InForce, list[i].Spec.Name) {
			did.InForce = append(did.InForce, list[i].Spec.Name)
		}
	}
	l.named = append(l.named, names)
	return did, nil
}

func (l *looped) LookPlan(ctx context.Context, name string, limit int) (*store.ChunkLook, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.m.LookPlan(ctx, name, limit)
}

func (l *looped) ApplyChunks(ctx context.Context, s *store.ChunkStep) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.m.ApplyChunks(ctx, s)
}

func (l *looped) session() (task.Session, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 1, l.joined
}

func (l *looped) open() (chunk.Source, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened++
	return opened{l.w.src, l}, nil
}

// opened is a source that may refuse its table.
type opened struct {
	*ints

	l *looped
}

func (o opened) Check(context.Context) error {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	return o.l.check
}

func (o opened) Throttled(context.Context) (string, error) {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	return o.l.waits, nil
}

func (o opened) Cut(ctx context.Context, after, limit *chunk.Key, n, most int) (chunk.Cuts, error) {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	return o.ints.Cut(ctx, after, limit, n, most)
}

// loops runs a loop of the plan "p" in a bubble until end is called. before is called before it starts.
func loops(t *testing.T, before func(*looped)) *looped {
	t.Helper()
	spec := store.ChunkSpec{Name: "p", Size: store.ChunkSize{Start: 10}, Ahead: 8}
	l := &looped{w: newWorld(t, spec), did: store.DeclaredChunks{Known: true, InForce: []string{"p"}}, joined: true}
	before(l)
	l.plan = chunk.Plan{Declaration: store.ChunkDeclaration{Spec: spec}, Place: "app.hcl:7", Open: l.open}
	loop := chunk.NewLoop(chunk.Options{
		Declare: l, Work: chunk.NewEngine(l, "a"), Session: l.session, Steady: func() bool { return true },
		Plans: []chunk.Plan{l.plan},
		Log:   slog.New(slog.NewTextHandler(&l.log, nil)), Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
	})
	l.loop = loop
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx) }()
	l.end = func() {
		cancel()
		require.NoError(t, <-done)
	}
	return l
}

// passes lets time go by, of the store, too, and then has f change something.
func (l *looped) passes(d time.Duration, f func()) {
	<-time.After(d)
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w.m.now = l.w.m.now.Add(d)
	f()
}

func TestALoopPlansWhatIsInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := loops(t, func(l *looped) {
			for k := range 95 {
				l.w.src.todo[k] = true
			}
		})
		for range 10 {
			l.passes(2*time.Second, func() {
				for _, r := range l.w.m.live() {
					l.w.succeed(r)
				}
			})
		}
		l.end()
		require.Len(t, l.w.m.rows, 10)
		require.True(t, l.w.m.plan.Over)
		require.Equal(t, 1, l.opened)
	})
}

func TestALoopLeavesAlone(t *testing.T) {
	for name, change := range map[string]func(*looped){
		"what is not in force":        func(l *looped) { l.did.InForce = nil },
		"what is refused":             func(l *looped) { l.did = store.DeclaredChunks{Known: true, Refused: []string{"p"}} },
		"all while it has no session": func(l *looped) { l.joined = false },
		"a table that cannot be cut": func(l *looped) {
			l.check = &chunk.InvalidError{Table: "event", Key: "id", Problem: "no index", Remedy: "add one"}
		},
		"all of an agent that is gone": func(l *looped) { l.did = store.DeclaredChunks{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := loops(t, func(l *looped) {
					change(l)
					l.w.src.todo[1] = true
				})
				l.passes(5*time.Minute, func() {})
				l.end()
				require.Empty(t, l.w.m.rows)
				require.LessOrEqual(t, l.opened, 6, "at most once a minute")
				require.Equal(t, name == "what is refused", strings.Contains(l.log.String(), " chunks=p at=app.hcl:7"), "where it is declared")
				require.LessOrEqual(t, strings.Count(l.log.String(), "\n"), 1, "it is said once: %s", &l.log)
			})
		})
	}
}

// A plan that is declared as before goes on. One whose table is elsewhere begins anew once that is declared, and one that is not declared any
// more ends, which the store gets to know.
func TestALoopGetsOtherPlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := loops(t, func(l *looped) {
			l.w.src.todo[1] = true
			l.takes = 100 * time.Millisecond
		})
		l.passes(5*time.Second, func() { require.Equal(t, 1, l.opened) })
		l.loop.Replace([]chunk.Plan{l.plan})
		l.passes(5*time.Second, func() {
			require.Equal(t, 1, l.opened, "it goes on")
			l.did.InForce = nil // another agent's declaration is the newer one
		})
		elsewhere := l.plan
		elsewhere.At = "elsewhere"
		l.loop.Replace([]chunk.Plan{elsewhere})
		l.passes(5*time.Second, func() {
			require.Equal(t, 1, l.opened, "not before it is in force")
			l.did.InForce = []string{"p"}
		})
		l.passes(15*time.Second, func() { require.Equal(t, 2, l.opened) })
		l.loop.Replace(nil)
		l.passes(time.Minute, func() {
			require.Empty(t, l.named[len(l.named)-1])
			l.named = nil
			for k := range 50 {
				l.w.src.todo[k+100] = true
			}
		})
		l.passes(time.Minute, func() {
			require.Empty(t, l.named, "said once")
			require.Len(t, l.w.m.rows, 1, "nothing more is planned")
		})
		l.loop.Replace([]chunk.Plan{elsewhere})
		l.passes(15*time.Second, func() { require.Equal(t, 3, l.opened) })
		l.end()
	})
}

func TestALoopGoesOnOnceTheTableCanBeCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := loops(t, func(l *looped) {
			l.check = &chunk.InvalidError{Table: "event", Key: "id", Problem: "no index", Remedy: "add one"}
			l.w.src.todo[1] = true
		})
		l.passes(90*time.Second, func() {
			require.Empty(t, l.w.m.rows)
			l.check = nil
		})
		l.passes(2*time.Minute, func() {})
		l.end()
		require.Contains(t, l.log.String(), "add one")
		require.Len(t, l.w.m.rows, 1)
	})
}

func TestALoopSaysWhatPlansWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := loops(t, func(l *looped) {
			l.waits = "a transaction is 11m old"
			l.w.src.todo[1] = true
		})
		l.passes(20*time.Second, func() {
			require.Equal(t, []store.WaitingPlan{{Plan: "p", Why: "a transaction is 11m old"}}, l.loop.Waits())
			require.Empty(t, l.w.m.rows)
			l.waits = ""
		})
		l.passes(20*time.Second, func() {
			require.Empty(t, l.loop.Waits())
			require.Len(t, l.w.m.rows, 1)
			l.waits, l.w.src.todo[2] = "other work", true
		})
		l.end()
		require.Empty(t, l.loop.Waits(), "it plans nothing any more")
	})
}

// TestAPlanThatIsNotInForceDoesNotWait: another agent's declaration of it is in force now.
func TestAPlanThatIsNotInForceDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := loops(t, func(l *looped) {
			l.waits = "other work"
			l.w.src.todo[1] = true
		})
		l.passes(20*time.Second, func() {
			require.Len(t, l.loop.Waits(), 1)
			l.did.InForce = nil
		})
		l.passes(30*time.Second, func() { require.Empty(t, l.loop.Waits()) })
		l.end()
	})
}
