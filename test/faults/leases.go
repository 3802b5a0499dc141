//go:build linux

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/history"
)

// namedLeases are what holders compete for, with their lengths. A holder renews when a third of that is over.
func namedLeases() []string { return []string{"leader=3s", "index=2s", "nightly=1s"} }

// Bounds of what befalls holders, and of the time until each lease is held again when the faults have ended: without an agent that
// vouches for the clock, a lease is taken 15 s after its expiry was seen.
const (
	disturbEvery   = 3 * time.Second
	holderFrozen   = 5 * time.Second
	holderKilled   = time.Second
	heldAgainAfter = 45 * time.Second
)

// holder is a place for a process that takes named leases. It reaches the store in the way of one of the agents, so what is done to
// that agent's network is done to the holder, too.
type holder struct {
	w     *world
	name  string
	store string

	mu    sync.Mutex
	cmd   *exec.Cmd
	round int
	ended chan struct{} // nil: there is no process
}

// startHolders starts processes that take named leases until they are killed.
func (w *world) startHolders(t testing.TB) {
	t.Helper()
	t.Cleanup(w.endHolders) // before the agents' proxies end
	for i := range w.o.Holders {
		store := w.agents[i%len(w.agents)].store
		if !w.o.SQLite {
			u := *store
			query := u.Query()
			query.Set("default_query_exec_mode", "exec") // a pooler may be in between
			if w.cluster != nil && i == 0 && !strings.Contains(u.RawQuery, "exec_mode") {
				query.Set("synchronous_commit", "off") // no lease may depend on that
			}
			u.RawQuery = query.Encode()
			store = &u
		}
		h := &holder{w: w, name: fmt.Sprintf("h%d", i+1), store: store.String()}
		w.holders = append(w.holders, h)
		require.NoError(t, h.start())
	}
}

// start starts a process under a name of its own.
func (h *holder) start() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.round++
	who := h.name + "." + strconv.Itoa(h.round)
	seed := strconv.FormatUint(h.w.o.Seed*1000+uint64(h.round), 10)
	args := append([]string{h.w.leaseLog(), h.store, who, seed}, namedLeases()...)
	cmd := exec.Command(h.w.programs.Holder, args...) //nolint:noctx // endHolders ends it
	cmd.Dir, cmd.Env = h.w.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.w.dir}
	text, err := os.Create(filepath.Join(h.w.dir, who+".log"))
	if err != nil {
		return err
	}
	defer text.Close() //nolint:errcheck // the process has it, too
	cmd.Stdout, cmd.Stderr = text, text
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", who, err)
	}
	ended := make(chan struct{})
	h.cmd, h.ended = cmd, ended
	h.w.all.Go(func() {
		defer close(ended)
		if err := cmd.Wait(); cmd.ProcessState.Exited() { // only a signal ends it
			h.w.fail(fmt.Errorf("%s ended: %w", who, err))
		}
	})
	return nil
}

func (h *holder) signal(s syscall.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cmd != nil {
		_ = h.cmd.Process.Signal(s) // it may have ended
	}
}

// kill ends the process and waits for that.
func (h *holder) kill() {
	h.signal(syscall.SIGKILL)
	h.mu.Lock()
	ended := h.ended
	h.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// disturb kills and freezes holders, one at a time, until ctx ends. It is no fault for the checker: it excuses nothing.
func (w *world) disturb(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.o.Seed, 6))
	for len(w.holders) > 0 {
		sleepUntil(ctx, time.Now().Add(upTo(r, disturbEvery)))
		if ctx.Err() != nil {
			return
		}
		h := w.holders[r.IntN(len(w.holders))]
		if r.IntN(2) == 0 {
			h.signal(syscall.SIGSTOP)
			sleepUntil(ctx, time.Now().Add(upTo(r, holderFrozen)))
			h.signal(syscall.SIGCONT)
			continue
		}
		h.kill()
		sleepUntil(ctx, time.Now().Add(upTo(r, holderKilled)))
		if err := h.start(); err != nil {
			w.fail(err)
			return
		}
	}
}

func (w *world) leaseLog() string { return filepath.Join(w.dir, "leases") }

// awaitHolders waits until each lease is held by one who asked for it from now on, and ends the holders.
func (w *world) awaitHolders(t testing.TB) {
	t.Helper()
	if len(w.holders) == 0 {
		return
	}
	since, start := history.Now(), time.Now()
	for tick := time.NewTicker(200 * time.Millisecond); ; <-tick.C {
		left := map[string]bool{}
		for _, lease := range namedLeases() {
			name, _, _ := strings.Cut(lease, "=")
			left[name] = true
		}
		calls, err := history.ReadLeaseCalls(w.leaseLog())
		require.NoError(t, err)
		for _, c := range calls {
			if c.Asked > since && c.Answer == history.Granted {
				delete(left, c.Name)
			}
		}
		if len(left) == 0 {
			break
		}
		if time.Since(start) > heldAgainAfter {
			w.fail(fmt.Errorf("no one got the leases %v within %s after the last fault", left, heldAgainAfter))
			break
		}
	}
	w.endHolders()
}

func (w *world) endHolders() {
	for _, h := range w.holders {
		h.kill()
	}
}

// collectLeases reads what holders wrote down, and what the store did. Holders have ended.
func (w *world) collectLeases(t testing.TB, h *history.History) {
	t.Helper()
	if len(w.holders) == 0 {
		return
	}
	var err error
	h.Leases.Calls, err = history.ReadLeaseCalls(w.leaseLog())
	require.NoError(t, err)
	query(t, w, `SELECT serial, name, fence, holder, what FROM lease_step ORDER BY serial`, func(rows pgx.Rows) error {
		var s history.LeaseStep
		err := rows.Scan(&s.Serial, &s.Name, &s.Fence, &s.Holder, &s.What)
		h.Leases.Steps = append(h.Leases.Steps, s)
		return err
	})
}
