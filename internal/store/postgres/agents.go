package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// ListAgents lists sessions by name.
func (s *Store) ListAgents(ctx context.Context, all bool) (list []store.AgentInfo, err error) {
	err = s.do(ctx, "list agents", func(ctx context.Context, conn *pgx.Conn) error {
		list, err = s.agents(ctx, conn, all)
		return err
	})
	return list, err
}

func (s *Store) agents(ctx context.Context, on querier, all bool) (list []store.AgentInfo, err error) {
	var i store.AgentInfo
	var condition string
	return list, forEach(ctx, on, []any{
		(*int64)(&i.Session), &i.Name, (*string)(&i.State), &i.Region, &i.Version, &i.Config, &i.Workers, &i.Running, &i.Done,
		&i.DonePerMinute, &i.Types, &i.StartedAt, &i.SeenAt, &i.OrderedBy, &condition,
	}, func() error {
		i.StartedAt, i.SeenAt, i.Condition = i.StartedAt.UTC(), i.SeenAt.UTC(), store.ReadCondition(condition)
		list = append(list, i)
		i.Types = nil // the next row has a list of its own
		return nil
	}, s.sql.ListAgents, arg("every", all))
}

// OrderAgent gives the present sessions with that name or number an order.
func (s *Store) OrderAgent(ctx context.Context, agent string, order store.AgentOrder, by string) (list []store.AgentOrdered, err error) {
	what := fmt.Sprintf("%s agent %q", order, agent)
	answer, err := s.operate(ctx, what, store.ErrNoAgent, s.sql.OrderAgent, arg("agent", storable(agent)), arg("verb", string(order)),
		arg("by", storable(by)))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(answer), &list); err != nil {
		return nil, fmt.Errorf("%s: the store answers with no list: %w", what, err)
	}
	return list, nil
}
