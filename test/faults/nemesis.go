//go:build linux

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// slack is how late things may be that nothing is promised of, on a busy machine.
const slack = 1500 * time.Millisecond

// Fault is a kind of fault that the nemesis knows.
type Fault struct {
	Name string
	// Agent: it befalls one agent; else the server, or the application.
	Agent bool
	// Alone: while it lasts nothing else of the server's is broken, as neither would mean anything.
	Alone bool
	// Lasts is how long it does, at most; 0: it is over at once.
	Lasts time.Duration
	// do breaks something and gives what mends it. at is where in the schedule it stands: a source of chance of its own.
	do func(n *nemesis, a *agent, r *rand.Rand) (heal func() error, note string, err error)
}

// Planned is a fault at its time.
type Planned struct {
	Fault string
	At    time.Duration // since the start
	Lasts time.Duration
	Agent int    // which, where it befalls one
	Seed  uint64 // of its own chances
}

func (p Planned) String() string {
	return fmt.Sprintf("%7s  %-22s agent %d  for %s", p.At.Round(time.Millisecond), p.Fault, p.Agent+1, p.Lasts.Round(time.Millisecond))
}

// Schedule is what the nemesis does in a run: the same for the same seed. Each fault has come once before any comes again, so that
// a short run has as many kinds as it has room for.
func Schedule(seed uint64, lasts time.Duration, agents int, faults []Fault) []Planned {
	r := rand.New(rand.NewPCG(seed, 2))
	var all []Planned
	if len(faults) == 0 {
		return nil
	}
	var order []int
	for at := time.Second; at < lasts; at += 200*time.Millisecond + upTo(r, 1500*time.Millisecond) {
		if len(order) == 0 {
			order = r.Perm(len(faults))
		}
		f := faults[order[0]]
		order = order[1:]
		p := Planned{Fault: f.Name, At: at, Agent: r.IntN(agents), Seed: r.Uint64()}
		if f.Lasts > 0 {
			p.Lasts = f.Lasts/8 + upTo(r, f.Lasts*7/8)
		}
		all = append(all, p)
	}
	return all
}

func upTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

func (w *world) plan() []Planned {
	if w.o.Schedule != nil {
		return w.o.Schedule
	}
	return Schedule(w.o.Seed, w.o.Lasts, w.o.Agents, w.o.Faults)
}

// nemesis breaks things and mends them.
type nemesis struct {
	w     *world
	t     testing.TB
	known map[string]Fault

	mu     sync.Mutex
	heals  map[int]func() // of faults in force
	last   int
	server sync.Mutex // held while a fault of the server's is in force
}

func newNemesis(w *world) *nemesis {
	n := &nemesis{w: w, known: map[string]Fault{}, heals: map[int]func(){}}
	for _, f := range append(AllFaults(), aimed()...) {
		n.known[f.Name] = f
	}
	return n
}

// run goes through a schedule, and waits until its end.
func (n *nemesis) run(t testing.TB, plan []Planned) {
	t.Helper()
	n.t = t
	start := time.Now()
	var all sync.WaitGroup
	for _, p := range plan {
		f, known := n.known[p.Fault]
		if !known {
			t.Fatalf("there is no fault %q", p.Fault)
		}
		sleepUntil(t.Context(), start.Add(p.At))
		all.Go(func() { n.one(f, p) })
	}
	sleepUntil(t.Context(), start.Add(n.w.o.Lasts))
	n.healAll()
	all.Wait()
}

// one lets a fault come and go.
func (n *nemesis) one(f Fault, p Planned) {
	if f.Alone {
		if !n.server.TryLock() {
			return // the server is broken already
		}
		defer n.server.Unlock()
	}
	var a *agent
	if f.Agent {
		a = n.w.agents[p.Agent]
	}
	began := history.Now() // what breaks things may take long, and they are broken from its beginning on
	heal, note, err := f.do(n, a, rand.New(rand.NewPCG(p.Seed, 3)))
	if err != nil {
		n.w.fail(fmt.Errorf("%s: %w", f.Name, err))
		return
	}
	note = f.Name + " " + note
	if a != nil {
		note = f.Name + " " + a.name + " " + note[len(f.Name)+1:]
	}
	n.w.log.AddAt(began, history.Event{What: history.Fault, Note: note})
	healed := make(chan struct{})
	once := sync.OnceFunc(func() {
		defer close(healed)
		if heal != nil {
			if err := heal(); err != nil {
				n.w.fail(fmt.Errorf("mend %s: %w", f.Name, err))
			}
		}
		n.w.log.Add(history.Event{What: history.Heal, Note: note})
	})
	n.mu.Lock()
	n.last++
	me := n.last
	n.heals[me] = once
	n.mu.Unlock()
	timer := time.NewTimer(p.Lasts)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-healed:
	}
	once()
	n.mu.Lock()
	delete(n.heals, me)
	n.mu.Unlock()
}

// healAll mends what is broken.
func (n *nemesis) healAll() {
	n.mu.Lock()
	var all []func()
	for _, heal := range n.heals {
		all = append(all, heal)
	}
	n.mu.Unlock()
	for _, heal := range all {
		heal()
	}
}

func sleepUntil(ctx context.Context, at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
