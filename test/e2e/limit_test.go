package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// guarded is an endpoint that makes its effects in a transaction with hold, each of which takes a time, and counts them.
type guarded struct {
	h     *house
	takes time.Duration

	mu     sync.Mutex
	now    int           // effects that are being made
	most   int           // at once
	busy   time.Duration // of all requests together
	inside int           // requests
	since  time.Time     // up to which busy counts
	starts []time.Time   // of requests
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	id, _ := strconv.ParseInt(r.Header.Get("Leasehold-Task"), 10, 64)
	fence, _ := strconv.ParseInt(r.Header.Get("Leasehold-Fence"), 10, 64)
	g.enter(1)
	defer g.enter(-1)
	// The request may be given up. The effect is made all the same, and is to count.
	ctx := context.WithoutCancel(r.Context())
	err := pgx.BeginFunc(ctx, g.h.app, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT leasehold.hold($1, $2)`, id, fence); err != nil {
			return err
		}
		g.count(1)
		defer g.count(-1)
		lasts(g.takes)
		return nil
	})
	if err != nil {
		w.WriteHeader(http.StatusConflict)
	}
}

// lasts returns after that time.
func lasts(d time.Duration) { <-time.After(d) }

// enter counts requests.
func (g *guarded) enter(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.busy += time.Duration(g.inside) * now.Sub(g.since)
	g.since, g.inside = now, g.inside+n
	if n > 0 {
		g.starts = append(g.starts, now)
	}
}

// count counts effects.
func (g *guarded) count(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.most = max(g.most, g.now)
}

// average returns how many requests there were at once on average, for so long.
func (g *guarded) average(over time.Duration) float64 {
	read := func() (time.Duration, time.Time) {
		g.enter(0)
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.busy, g.since
	}
	before, began := read()
	lasts(over)
	after, now := read()
	return float64(after-before) / float64(now.Sub(began))
}

// bounded starts five agents with a guarded endpoint and a bound on the type, and inserts rows that wait for it.
func bounded(t *testing.T, rows int, takes time.Duration, bound string) (*guarded, []*harness.Agent) {
	t.Helper()
	h := newHouse(t, 1)
	g := &guarded{h: h, takes: takes, since: time.Now()}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	h.endpoint.url = server.URL
	config := h.app.Config()
	config.MaxConns = 30
	wide, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(wide.Close)
	h.app = wide
	var agents []*harness.Agent
	for i := range 5 {
		agents = append(agents, h.agent(fmt.Sprintf("agent-%d", i), 16, "", bound))
	}
	h.insert(rows, insertRows(rows))
	return g, agents
}

// pauses stops the agents in turn for so long, until the time is over.
func pauses(t *testing.T, agents []*harness.Agent, each, over time.Duration) {
	t.Helper()
	for began, i := time.Now(), 0; time.Since(began) < over; i++ {
		a := agents[i%len(agents)]
		a.Signal(t, syscall.SIGSTOP)
		lasts(each)
		a.Signal(t, syscall.SIGCONT)
		lasts(each)
	}
}

// full reports whether tests have their full length. Only then is measured what a machine has to be quick enough for.
func full() bool { return harness.Sized(0, 1) == 1 }

// TestLimitOverFiveAgents: no more guarded effects are made at once than the limit says, by the endpoint's own count, whatever stops agents for
// however long; and while rows wait and agents work, nearly all places are in use.
func TestLimitOverFiveAgents(t *testing.T) {
	g, agents := bounded(t, harness.Sized(12_000, 150_000), 50*time.Millisecond, "  limit = 20\n  timeout = \"10s\"")
	harness.Until(t, workWithin, "all places are in use", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.most >= 20 })
	used := g.average(time.Duration(harness.Sized(1, 60)) * time.Second)
	t.Logf("%.2f of 20 places in use", used)
	if full() {
		require.GreaterOrEqual(t, used, 19.0)
	}
	pauses(t, agents, 200*time.Millisecond, time.Duration(harness.Sized(1, 30))*time.Second)
	pauses(t, agents, 7*time.Second, time.Duration(harness.Sized(0, 60))*time.Second) // for longer than the agents' presence
	agents[0].Kill(t)
	lasts(time.Duration(harness.Sized(0, 20)) * time.Second)
	g.mu.Lock()
	defer g.mu.Unlock()
	require.Equal(t, 20, g.most)
}

// TestRateOverFiveAgents: as many attempts start as the rate says, and in no second more than the burst and twice the rate, by the endpoint's own
// count, also while agents are stopped for moments.
func TestRateOverFiveAgents(t *testing.T) {
	const rate, burst = 100, 20
	g, agents := bounded(t, 20_000, time.Millisecond, fmt.Sprintf("  rate = \"%d/s\"\n  burst = %d\n", rate, burst))
	harness.Until(t, workWithin, "tasks start", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.starts) > burst })
	over := time.Duration(harness.Sized(1, 60)) * time.Second
	count := func() int { g.mu.Lock(); defer g.mu.Unlock(); return len(g.starts) }
	before, began := count(), time.Now()
	lasts(over)
	got := float64(count()-before) / time.Since(began).Seconds()
	t.Logf("%.2f starts in a second, of %d", got, rate)
	if full() {
		require.InEpsilon(t, rate, got, 0.02)
	}
	before, began = count(), time.Now()
	pauses(t, agents, 200*time.Millisecond, over)
	got = float64(count()-before) / time.Since(began).Seconds()
	t.Logf("%.2f while agents are stopped for moments", got)
	if full() {
		require.LessOrEqual(t, got, rate*1.02)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	most, first := 0, 0
	for i, at := range g.starts {
		for at.Sub(g.starts[first]) > time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	t.Logf("%d in one second at most", most)
	require.LessOrEqual(t, most, burst+2*rate)
}
