package lease

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// declareRetry is the longest time between two tries to declare what the store has refused.
const declareRetry = time.Minute

// declaring is a declaration that the store does not have yet.
type declaring struct {
	agent  store.Agent // the session as it is to be declared
	stored func()
	tries  int           // that failed; Run's goroutine alone uses it, and next
	next   time.Duration // local time of the next try
}

// Declare has the session declare something else from its next heartbeat on, which comes at once where Run runs: region,
// configuration, slots, types and policies of a. Name, version and presence stay as they are. stored is called when the
// store has written it, policies included, unless Declare is called again before. It must not block.
//
// Until then the session goes on under its earlier declaration. A store that refuses the new one is asked again, and the log
// says so.
func (k *Keeper) Declare(a store.Agent, stored func()) {
	k.mu.Lock()
	a.Name, a.Version, a.Presence = k.agent.Name, k.agent.Version, k.agent.Presence
	k.declaring = &declaring{agent: a, stored: stored}
	k.mu.Unlock()
	k.ask()
}

// declare has the store take what Declare set, if anything. A heartbeat with the earlier declaration has just extended the
// session, so that the session outlasts a failure.
func (k *Keeper) declare(ctx context.Context, period time.Duration) {
	k.mu.Lock()
	d := k.declaring
	k.mu.Unlock()
	if d == nil || k.clock.Now() < d.next {
		return
	}
	_, err := k.present(ctx, d) // the next heartbeat finds the same unleased rows
	k.mu.Lock()
	refused := err != nil && k.declaring == d
	k.mu.Unlock()
	if !refused || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	const most = 10
	pause := min(period<<min(d.tries, most), declareRetry)
	d.tries++
	d.next = k.clock.Now() + pause
	k.log.Warn("the store has not taken the new declarations; the earlier ones stay in force", "config", d.agent.Config,
		"next_try", pause, "err", err)
}

// describe returns the session as the store has it declared.
func (k *Keeper) describe() store.Agent {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.agent
}

// LongestStop returns the longest stop of a declared policy or an open lease.
func (k *Keeper) LongestStop() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.longestStop()
}

// longestStop returns the longest stop of a declared policy or an open lease. k.mu is held.
func (k *Keeper) longestStop() time.Duration {
	longest := k.agent.LongestStop()
	for _, l := range k.open {
		longest = max(longest, l.stopLength())
	}
	return longest
}
