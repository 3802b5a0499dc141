package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
)

// Agents is what operators' work on agents needs of the store.
type Agents interface {
	// ListAgents lists sessions by name, the newest first, 10,000 at most; without all, those that are present.
	ListAgents(ctx context.Context, all bool) ([]store.AgentInfo, error)
	// RegionOrphans lists the due rows of regions, by region and type, that no present agent with workers of that region declares. What it reads
	// is bounded: see store.RegionLooked.
	RegionOrphans(ctx context.Context) ([]store.RegionOrphan, error)
	// OrderAgent gives the present sessions with that name or number an order, and returns them; ErrNoAgent where there is none.
	// Each learns of it with its next heartbeat.
	OrderAgent(ctx context.Context, agent string, order store.AgentOrder, by string) ([]store.AgentOrdered, error)
}

// InHand splits what an agent has in hand into attempts, of which it has no more than workers, and rows that it has claimed ahead of them.
func InHand(i *store.AgentInfo) (running, ahead int) {
	running = min(i.Running, i.Workers)
	return running, i.Running - running
}

// NoAgent says that no agent is running, and which was the last one, of all sessions that the store knows.
func NoAgent(all []store.AgentInfo) string {
	const none = "no agent is running"
	if len(all) == 0 {
		return none + "; the store knows of none that has run"
	}
	last := slices.MaxFunc(all, func(a, b store.AgentInfo) int { return a.SeenAt.Compare(b.SeenAt) })
	how := "sent its last heartbeat"
	if last.State == store.AgentLeft {
		how = "exited"
	}
	return fmt.Sprintf("%s; the last one, %s, %s at %s", none, OneLine(last.Name, mostName), how, Time(last.SeenAt))
}

// OrderAgent gives the present sessions with that name or number an order, and returns them. It names an agent that is not present.
func OrderAgent(ctx context.Context, s Agents, agent string, order store.AgentOrder, by string) ([]store.AgentOrdered, error) {
	if err := checkBy(by); err != nil {
		return nil, err
	}
	list, err := s.OrderAgent(ctx, agent, order, by)
	if errors.Is(err, store.ErrNoAgent) {
		return nil, &missingAgent{agent}
	}
	return list, err
}

// missingAgent names an agent that is not present.
type missingAgent struct{ name string }

func (e *missingAgent) Error() string {
	return fmt.Sprintf("no agent %q is present: `leasehold agents` lists those that are", e.name)
}

func (*missingAgent) Unwrap() error { return store.ErrNoAgent }
