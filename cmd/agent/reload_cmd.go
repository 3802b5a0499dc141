package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/ops"
)

type reloadCmd struct {
	Address string `help:"Listener of the agent: http://HOST:PORT or unix:///PATH. Default: agent.listen of the configuration." placeholder:"URL"`
}

// Help gives examples.
func (reloadCmd) Help() string {
	return `Has a running agent read its configuration again, as SIGHUP does, and prints what has changed. It is taken whole or not at all: if a file
has a mistake, or something differs that needs a restart, nothing changes. Running tasks keep the policy that they started with.
The agent is found by agent.listen. It is sent agent.token (or LEASEHOLD_TOKEN), unless agent.listen is a loopback address or a Unix socket;
LEASEHOLD_TOKEN also goes to --address.
Exit 2 if the agent has refused the configuration.

Examples:

    leasehold reload
    leasehold reload --config /etc/leasehold/
    leasehold reload --address http://127.0.0.1:7071 -o json`
}

// Run asks the agent.
func (c reloadCmd) Run(a *app) error {
	at, err := a.findAgent(c.Address)
	if err != nil {
		return err
	}
	report, err := askToReload(at)
	if err != nil {
		return err
	}
	if err := a.print(report, func(w io.Writer) error { return showReload(w, report) }); err != nil {
		return err
	}
	switch report.Result {
	case reloadLoaded, reloadWaits:
		return nil
	case reloadInvalid, reloadRestart:
		return &failure{code: exitUsage}
	}
	return &failure{code: exitFailed}
}

// askToReload asks an agent to reload.
func askToReload(at agentAt) (*reloadReport, error) {
	resp, err := at.ask(http.MethodPost, api.ReloadPath, reloadWithin+10*time.Second)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return readReload(resp, at.address)
}

// readReload reads an agent's answer.
func readReload(resp *http.Response, address string) (*reloadReport, error) {
	const most = 16 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return nil, fmt.Errorf("read the answer of the agent at %s: %w", address, err)
	}
	var report reloadReport
	if json.Unmarshal(body, &report) == nil && report.Result != "" {
		return &report, nil
	}
	var problem struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &problem) != nil || problem.Detail == "" {
		problem.Detail = string(bytes.TrimSpace(body[:min(len(body), 200)]))
	}
	return nil, fmt.Errorf("the agent at %s answers %s: %s", address, resp.Status, problem.Detail)
}

// showReload writes what became of a reload for people.
func showReload(w io.Writer, r *reloadReport) error {
	var b strings.Builder
	for _, p := range r.Problems {
		if p.Place != "" {
			b.WriteString(p.Place + ": ")
		}
		b.WriteString(p.Text + "\n")
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		sign := map[string]string{ops.PlanAdded: "+", ops.PlanChanged: "~", ops.PlanRemoved: "-"}[c.What]
		fmt.Fprintf(&b, "%s %s %s\n", sign, blockName(c), c.What)
		for _, f := range c.Fields {
			fmt.Fprintf(&b, "    %s: %s -> %s\n", f.Name, orNone(f.Before), orNone(f.After))
		}
	}
	switch r.Result {
	case reloadLoaded:
		fmt.Fprintf(&b, "reloaded: %s (%s -> %s)\n", count(len(r.Changes), "change"), r.Before, r.Config)
	case reloadWaits:
		fmt.Fprintf(&b, "loaded: it takes effect once the store knows of it; until then %s stays in force\n", r.Before)
	default:
		fmt.Fprintf(&b, "nothing has changed: %s stays in force\n", r.Config)
	}
	_, err := io.WriteString(w, ops.Printable(b.String()))
	return err
}

// blockName is a block's kind, and its name where it has one.
func blockName(c *ops.BlockChange) string {
	if c.Name == "" {
		return c.Kind
	}
	return fmt.Sprintf("%s %q", c.Kind, c.Name)
}
