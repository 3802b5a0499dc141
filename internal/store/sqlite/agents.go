package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ListAgents lists sessions by name.
func (s *Store) ListAgents(ctx context.Context, all bool) (list []store.AgentInfo, err error) {
	err = s.view(ctx, "list agents", func(t *snapshot) error {
		list, err = t.agents(s.now(), all)
		return err
	})
	return list, err
}

func (t *snapshot) agents(now time.Time, all bool) (list []store.AgentInfo, err error) {
	err = t.query(func(r *sql.Rows) error {
		var i store.AgentInfo
		var types, condition string
		if err := r.Scan(&i.Session, &i.Name, textOf[store.AgentState]{&i.State}, &i.Region, &i.Version, &i.Config, &i.Workers,
			&i.Running, &i.Done, &i.DonePerMinute, &types, timeOf{&i.StartedAt}, timeOf{&i.SeenAt}, &i.OrderedBy, &condition); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(types), &i.Types); err != nil {
			return fmt.Errorf("types of session %d: %w", i.Session, err)
		}
		i.Condition = store.ReadCondition(condition)
		list = append(list, i)
		return nil
	}, t.sql.ListAgents, arg("every", all), arg("now", stamp(now)))
	return list, err
}

// OrderAgent gives the present sessions with that name or number an order.
func (s *Store) OrderAgent(ctx context.Context, agent string, order store.AgentOrder, by string) (list []store.AgentOrdered, err error) {
	err = s.change(ctx, fmt.Sprintf("%s agent", order), func(t *tx) error {
		list = nil
		type present struct {
			store.AgentOrdered
			workers int
			had     store.AgentOrder
		}
		var found []present
		err := t.query(func(r *sql.Rows) error {
			var p present
			err := r.Scan(numberOf[task.Session]{&p.Session}, &p.Name, &p.workers, textOf[store.AgentOrder]{&p.had})
			found = append(found, p)
			return err
		}, t.sql.PresentAgents, arg("agent", agent), arg("now", stamp(t.now)))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("%q: %w", agent, store.ErrNoAgent)
		}
		for _, p := range found {
			p.State, p.Changed = order.On(p.had, p.workers)
			list = append(list, p.AgentOrdered)
			if !p.Changed {
				continue
			}
			if err := t.order(p.Session, order, by); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// order writes an order for a session.
func (t *tx) order(session task.Session, order store.AgentOrder, by string) error {
	set, who := order, by
	if order == store.Uncordon {
		set, who = "", ""
	}
	if _, err := t.exec(t.sql.OrderAgent, arg("session", int64(session)), arg("order", string(set)), arg("by", who)); err != nil {
		return err
	}
	_, err := t.exec(t.sql.NoteOrder, arg("now", stamp(t.now)), arg("by", by), arg("verb", string(order)), arg("session", int64(session)))
	return err
}
