package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
)

type healthCmd struct {
	Ready   bool   `help:"Ask whether the agent can take work (/-/ready), not only whether its loop turns (/-/healthy)."`
	Address string `help:"Listener of the agent: http://HOST:PORT or unix:///PATH. Default: agent.listen of the configuration." placeholder:"URL"`
	Timeout span   `help:"How long the agent may take to answer, 1ms to 1h." default:"5s" placeholder:"TIME"`
}

// Help gives examples.
func (healthCmd) Help() string {
	return `For health checks in images without curl. Exit 0 if the agent answers that it is well; 1 if it answers that it is not, with the reason on
standard error, or does not answer in time. Without --ready an agent that cannot reach its store is well: to restart it would not help.
The agent is found by agent.listen, or by --address, and then no configuration is needed.

Examples:

    leasehold health
    leasehold health --ready --timeout 2s
    leasehold health --address unix:///run/leasehold.sock`
}

// Bounds of --timeout.
const (
	leastHealthTimeout = span(time.Millisecond)
	mostHealthTimeout  = span(time.Hour)
)

// healthReport is what the command prints as JSON.
type healthReport struct {
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // "ok", or why it is not
}

// Run asks the agent.
func (c healthCmd) Run(a *app) error {
	if c.Timeout < leastHealthTimeout || c.Timeout > mostHealthTimeout {
		return usagef("--timeout %s: use 1ms to 1h", time.Duration(c.Timeout))
	}
	at, err := a.findAgent(c.Address)
	if err != nil {
		return err
	}
	path := "/-/healthy"
	if c.Ready {
		path = "/-/ready"
	}
	resp, err := at.ask(http.MethodGet, path, time.Duration(c.Timeout))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	const most = 1000
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return fmt.Errorf("read the answer of the agent at %s: %w", at.address, err)
	}
	report := healthReport{OK: resp.StatusCode == http.StatusOK, Detail: string(bytes.TrimSpace(body))}
	if a.cli.Output != "table" {
		if err := a.print(report, nil); err != nil || report.OK {
			return err
		}
		return &failure{code: exitFailed}
	}
	if report.OK {
		_, err := fmt.Fprintln(a.out, ops.OneLine(report.Detail, most))
		return err
	}
	if resp.StatusCode != http.StatusServiceUnavailable {
		return fmt.Errorf("the agent at %s answers %s: %s", at.address, resp.Status, report.Detail)
	}
	return fmt.Errorf("the agent at %s is not well: %s", at.address, report.Detail)
}
