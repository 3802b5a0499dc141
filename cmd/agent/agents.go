package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

type agentsCmd struct {
	List agentsListCmd `cmd:"" default:"withargs" help:"List agents by name."`

	Regions agentsRegionsCmd `cmd:"" help:"List regions with due tasks that no running agent of the region declares."`

	Drain    agentsDrainCmd    `cmd:"" help:"Have an agent exit once its running tasks have ended."`
	Cordon   agentsCordonCmd   `cmd:"" help:"Have an agent claim nothing more."`
	Uncordon agentsUncordonCmd `cmd:"" help:"Have a cordoned agent claim tasks again."`
}

type agentsListCmd struct {
	All bool `help:"Also agents that have left, or have sent no heartbeat for longer than their presence."`
}

// Help gives examples.
func (agentsListCmd) Help() string {
	return `DONE/MIN is how many attempts have ended within the last minute, and CONFIG the hash of the configuration. Each start of an agent is
a session of its own. A line below the table names each region with due tasks that no agent of it runs: see
leasehold agents regions.

Examples:

    leasehold agents
    leasehold agents --all -o jsonl`
}

// Run lists agents.
func (c agentsListCmd) Run(a *app) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		list, err := s.ListAgents(call, c.All)
		if err != nil {
			return err
		}
		header := table.Row{"NAME", "SESSION", "STATE", "RUNNING", "DONE/MIN", "LAST SEEN", "REGION", "VERSION", "CONFIG"}
		if err := printList(a, list, header, a.agentRow); err != nil {
			return err
		}
		if err := a.noAgent(call, s, list); err != nil {
			return err
		}
		return a.regionLines(call, s, list)
	})
}

// noAgent says below a list of agents that none is running, where that is so. It goes to standard error: who looks for a name in the list must not
// find that of the last one.
func (a *app) noAgent(ctx context.Context, s dataStore, list []store.AgentInfo) error {
	running := slices.ContainsFunc(list, func(i store.AgentInfo) bool { return i.State != store.AgentAbsent && i.State != store.AgentLeft })
	if running || a.cli.Output != "table" {
		return nil
	}
	all, err := s.ListAgents(ctx, true)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.err, ops.NoAgent(all))
	return err
}

// agentRow is an agent in a table.
func (a *app) agentRow(i store.AgentInfo) table.Row {
	const most = 40
	running, ahead := ops.InHand(&i)
	inHand := fmt.Sprintf("%d/%d", running, i.Workers)
	if ahead > 0 {
		inHand += fmt.Sprintf(" +%d", ahead) // claimed ahead
	}
	return table.Row{
		ops.OneLine(i.Name, most), i.Session, a.agentState(i.State), inHand, i.DonePerMinute,
		shortTime(i.SeenAt.Truncate(time.Second)), ops.OneLine(i.Region, most), ops.OneLine(i.Version, most), ops.OneLine(i.Config, most),
	}
}

// agentState writes a state, in its colour where there is colour.
func (a *app) agentState(s store.AgentState) string {
	switch s {
	case store.AgentWorking:
		return a.toned(string(s), ops.Good)
	case store.AgentAbsent:
		return a.toned(string(s), ops.Bad)
	}
	return a.toned(string(s), ops.UnderWay)
}

// agentOne is what verbs share that give agents an order.
type agentOne struct {
	Agent string `arg:"" help:"Name of the agent, or number of its session."`
	By    string `help:"Who requests it; recorded." placeholder:"WHO"`
}

// order gives the order, and prints what became of each session.
func (c agentOne) order(a *app, order store.AgentOrder) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		list, err := ops.OrderAgent(call, s, c.Agent, order, c.By)
		if err != nil {
			return err
		}
		return a.print(list, func(w io.Writer) error {
			for _, o := range list {
				note := ""
				switch {
				case !o.Changed:
					note = " already"
				case order == store.Drain:
					note = " (it exits when what runs has ended; a supervisor may start it again)"
				}
				if _, err := fmt.Fprintf(w, "agent %s, session %d: %s%s\n", ops.OneLine(o.Name, 400), o.Session, o.State, note); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

type agentsDrainCmd struct{ agentOne }

// Help gives examples.
func (agentsDrainCmd) Help() string {
	return `As SIGTERM does: running tasks may finish within agent.drain, the rest are stopped and released, and the agent exits with 0. If a
supervisor starts it again, it claims tasks again: cordon it instead to have it stay and claim nothing. It learns of it within 2 s.

Examples:

    leasehold agents drain billing-1 --by alice
    leasehold agents drain 42`
}

// Run drains.
func (c agentsDrainCmd) Run(a *app) error { return c.order(a, store.Drain) }

type agentsCordonCmd struct{ agentOne }

// Help gives examples.
func (agentsCordonCmd) Help() string {
	return `Running tasks go on, and the agent stays. It learns of it within 2 s, and claims nothing until it is uncordoned or started again.

Examples:

    leasehold agents cordon billing-1 --by alice`
}

// Run cordons.
func (c agentsCordonCmd) Run(a *app) error { return c.order(a, store.Cordon) }

type agentsUncordonCmd struct{ agentOne }

// Help gives examples.
func (agentsUncordonCmd) Help() string {
	return "It learns of it within 2 s.\n\nExamples:\n\n    leasehold agents uncordon billing-1"
}

// Run uncordons.
func (c agentsUncordonCmd) Run(a *app) error { return c.order(a, store.Uncordon) }
