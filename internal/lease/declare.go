package lease

import (
	"github.com/leasehold/leasehold/internal/store"
)

// declaring is a declaration that the store has not heard of yet.
type declaring struct{ stored func() }

// Declare has the session declare something else from its next heartbeat on, which comes at once where Run runs: region,
// configuration, slots, types and policies of a. Name, version and presence stay as they are. stored is called when the
// store has written it, policies included, unless Declare is called again before. It must not block.
func (k *Keeper) Declare(a store.Agent, stored func()) {
	k.mu.Lock()
	k.agent.Region, k.agent.Config, k.agent.Workers, k.agent.Types, k.agent.Policies = a.Region, a.Config, a.Workers, a.Types, a.Policies
	k.longest = max(k.longest, a.LongestStop()) // attempts under earlier policies may still run
	k.declaring = &declaring{stored}
	k.mu.Unlock()
	select {
	case k.asks <- struct{}{}:
	default:
	}
}

// describe returns the session as it is declared now.
func (k *Keeper) describe() store.Agent {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.agent
}
