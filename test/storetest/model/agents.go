package model

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// state is what a session does, by its last heartbeat.
func (a *Agent) state(now time.Time) store.AgentState {
	switch {
	case !a.PresentUntil.After(a.SeenAt):
		return store.AgentLeft
	case !a.PresentUntil.After(now):
		return store.AgentAbsent
	case a.Draining:
		return store.AgentDraining
	}
	order := a.Order
	if order == "" {
		order = store.Uncordon
	}
	s, _ := order.On("", a.Workers)
	return s
}

// ListAgents lists sessions by name, the newest first.
func (s *Store) ListAgents(ctx context.Context, all bool) (list []store.AgentInfo, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for session, a := range s.agents {
		if all || a.PresentUntil.After(now) {
			list = append(list, store.AgentInfo{
				Session: session, Name: a.Name, State: a.state(now), Region: a.Region, Version: a.Version, Config: a.Config,
				Workers: a.Workers, Running: a.Running, Done: a.Done, DonePerMinute: a.Minute, Types: a.Types,
				StartedAt: a.StartedAt, SeenAt: a.SeenAt, OrderedBy: a.OrderedBy,
			})
		}
	}
	slices.SortFunc(list, func(x, y store.AgentInfo) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), cmp.Compare(y.Session, x.Session))
	})
	return list, nil
}

// OrderAgent gives the present sessions with that name or number an order.
func (s *Store) OrderAgent(ctx context.Context, agent string, order store.AgentOrder, by string) (list []store.AgentOrdered, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for session, a := range s.agents {
		if !a.PresentUntil.After(now) || a.Name != agent && strconv.FormatInt(int64(session), 10) != agent {
			continue
		}
		had := a.Order
		if a.Draining {
			had = store.Drain
		}
		o := store.AgentOrdered{Session: session, Name: a.Name}
		if o.State, o.Changed = order.On(had, a.Workers); o.Changed {
			a.Order, a.OrderedBy = order, by
			if order == store.Uncordon {
				a.Order, a.OrderedBy = "", ""
			}
		}
		list = append(list, o)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s agent %q: %w", order, agent, store.ErrNoAgent)
	}
	slices.SortFunc(list, func(x, y store.AgentOrdered) int { return cmp.Compare(x.Session, y.Session) })
	return list, nil
}
