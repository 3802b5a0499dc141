package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/config"
)

// agentAt is where a running agent is asked something.
type agentAt struct {
	address string // as the configuration writes it, or as a URL
	token   string // "": none
}

// findAgent finds an agent by --address, or else by the configuration, whose token it is asked with unless LEASEHOLD_TOKEN is set. An agent that
// listens where only this host reaches it needs no token, and while it does not run, another user's process may listen in its place.
func (a *app) findAgent(address string) (agentAt, error) {
	at := agentAt{address: address, token: os.Getenv("LEASEHOLD_TOKEN")}
	cfg, err := config.Load(a.configPaths(nil), config.Options{})
	switch {
	case err == nil:
		if at.address == "" {
			at.address = cfg.Agent.Listen
		}
		switch {
		case onThisHost(cfg.Agent.Listen) && onThisHost(at.address):
			if address == "" { // else it may be another's, by a tunnel: LEASEHOLD_TOKEN is meant for it
				at.token = ""
			}
		case at.token == "":
			at.token = cfg.Agent.Token
		}
	case address == "": // where the agent listens is in it
		return at, err
	}
	return at, nil
}

// onThisHost reports whether an address, as agentAt has it, is a Unix socket or a loopback address.
func onThisHost(address string) bool {
	if strings.HasPrefix(address, "unix://") {
		return true
	}
	host, _, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/"))
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// ask asks the agent, and gives it so long. The caller closes the body.
func (at agentAt) ask(method, path string, within time.Duration) (*http.Response, error) {
	dialer := &net.Dialer{Timeout: min(openTimeout, within)}
	network, to := "tcp", strings.TrimSuffix(strings.TrimPrefix(at.address, "http://"), "/")
	if socket, ok := strings.CutPrefix(at.address, "unix://"); ok {
		network, to = "unix", socket
	} else if host, port, err := net.SplitHostPort(to); err != nil {
		return nil, usagef("--address: use http://host:port or unix:///path")
	} else if port == "0" {
		return nil, usagef("agent.listen has any free port: --address names the agent's, which its log has")
	} else if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() { // every interface: one that works from here
		to = net.JoinHostPort("127.0.0.1", port)
	}
	client := &http.Client{
		Timeout: within,
		Transport: &http.Transport{ // no proxy, whatever the environment says
			DisableKeepAlives: true,
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, network, to) },
		},
		// An agent redirects to nowhere, and whatever else listens there is not to be told the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	host := to
	if network == "unix" {
		host = "localhost"
	}
	r, err := http.NewRequestWithContext(context.Background(), method, "http://"+host+path, http.NoBody)
	if err != nil {
		return nil, usagef("--address: %s", err)
	}
	if at.token != "" {
		r.Header.Set("Authorization", "Bearer "+at.token)
	}
	resp, err := client.Do(r)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no agent listens at %s: start it; if agent.listen was changed, restart the agent", at.address)
	} else if err != nil {
		return nil, fmt.Errorf("ask the agent at %s: %w", at.address, err)
	}
	return resp, nil
}
