package web

import (
	"net/http"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

const listAgents = 200

// agentRow is an agent in a list.
type agentRow struct {
	store.AgentInfo
	Verbs []verb
	Use   float64 // running of workers
	Busy  int     // running
	Ahead int     // claimed ahead of what runs
}

// agentList shows the agents.
func (d *Dashboard) agentList(r *request) (*view, error) {
	all := r.URL.Query().Get("all") == "true"
	list, err := d.Store.ListAgents(r.ctx, all)
	if err != nil {
		return nil, err
	}
	data := struct {
		Now  time.Time
		All  bool
		List []agentRow
		More int
		Said string
	}{Now: r.now, All: all, More: max(len(list)-listAgents, 0), Said: r.said()}
	for _, a := range list[:min(len(list), listAgents)] {
		row := agentRow{AgentInfo: a, Verbs: agentVerbs(a.State)}
		if row.Busy, row.Ahead = ops.InHand(&a); a.Workers > 0 {
			row.Use = float64(row.Busy) / float64(a.Workers)
		}
		data.List = append(data.List, row)
	}
	return &view{Title: "Agents", Place: "agents", Name: "agents", Data: data, Live: events}, nil
}

// agentVerbs are the orders that make sense for an agent in a state.
func agentVerbs(s store.AgentState) []verb {
	drain := verb{"drain", "Drain", "It claims no more, and exits when what runs has ended. This cannot be taken back.", true}
	switch s {
	case store.AgentWorking:
		return []verb{{"cordon", "Cordon", "It claims no more until it is uncordoned. What runs goes on.", false}, drain}
	case store.AgentCordoned:
		return []verb{{"uncordon", "Uncordon", "It claims again.", false}, drain}
	case store.AgentObserver:
		return []verb{drain}
	default:
		return nil
	}
}

// orderAgent gives an agent an order.
func (d *Dashboard) orderAgent(_ http.ResponseWriter, r *request) (string, error) {
	name, err := r.name("name")
	if err != nil {
		return "", err
	}
	orders := map[string]store.AgentOrder{"drain": store.Drain, "cordon": store.Cordon, "uncordon": store.Uncordon}
	order, known := orders[r.PathValue("verb")]
	if !known {
		return "", &missing{"an agent is drained, cordoned or uncordoned"}
	}
	if _, err := ops.OrderAgent(r.ctx, d.Store, name, order, r.by()); err != nil {
		return "", err
	}
	return "/agents?said=ordered", nil
}
