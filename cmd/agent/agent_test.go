package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// rig is an agent on a store of its own, running in this process.
type rig struct {
	agent *agent
	url   string
	file  string // of the store
	ended chan error
}

func startAgent(t *testing.T, hcl string) *rig {
	t.Helper()
	return startWith(t, hcl, quiet(), func(*rig) {})
}

// startWith starts an agent that logs to log. It calls before once the agent is built.
func startWith(t *testing.T, hcl string, log *slog.Logger, before func(*rig)) *rig {
	t.Helper()
	file := filepath.Join(t.TempDir(), "leasehold.hcl")
	hcl = "agent {\n  listen = \"127.0.0.1:0\"\n  drain = \"10s\"\n}\n" + hcl
	require.NoError(t, os.WriteFile(file, []byte(hcl), 0o600))
	return startLoaded(t, func() (*config.Config, error) { return config.Load([]string{file}, config.Options{}) }, log, before)
}

// startLoaded is startWith for a configuration that is loaded so.
func startLoaded(t *testing.T, load func() (*config.Config, error), log *slog.Logger, before func(*rig)) *rig {
	t.Helper()
	cfg, err := load()
	require.NoError(t, err)
	p, err := placeOf(cfg.Store)
	require.NoError(t, err)
	p.outage = &telemetry.Outage{}
	s, err := openReady(t.Context(), p, false, log)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, closeStore(s)) })
	a, err := newAgent(t.Context(), cfg, s, p.URL, log, nil)
	require.NoError(t, err)
	a.metrics.Outage = p.outage
	r := &rig{agent: a, url: api.Address(a.listener), file: p.path, ended: make(chan error, 1)}
	before(r)
	go func() { r.ended <- a.run() }()
	return r
}

// stop drains the agent and waits for its end.
func (r *rig) stop(t *testing.T) {
	t.Helper()
	r.agent.engine.Drain()
	select {
	case err := <-r.ended:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		require.Fail(t, "the agent does not end")
	}
}

// get asks the agent's listener.
func (r *rig) get(t *testing.T, path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// eventually asks until the answer is 200 and that.
func (r *rig) eventually(t *testing.T, path, contains string) {
	t.Helper()
	r.becomes(t, path, http.StatusOK, contains)
}

// becomes asks until the answer is that.
func (r *rig) becomes(t *testing.T, path string, status int, contains string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got, body := r.get(t, path)
		require.Equal(c, status, got)
		require.Contains(c, body, contains)
	}, 20*time.Second, 10*time.Millisecond)
}

func TestAgentReportsHowItIs(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("agent", func(t *testing.T) {
		r := startAgent(t, `task "hello" {
  command {
    argv = ["true"]
  }
}`)
		r.eventually(t, "/-/ready", "ok")
		r.eventually(t, "/-/healthy", "ok")

		id, answer, err := ops.Enqueue(t.Context(), r.agent.store, store.EnqueueRequest{Type: "hello"})
		require.NoError(t, err)
		require.Equal(t, store.EnqueuedInserted, answer)
		_, _, err = ops.Enqueue(t.Context(), r.agent.store, store.EnqueueRequest{Type: "undeclared"})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		infos, err := ops.Wait(ctx, r.agent.store, []task.ID{id}, ops.Watch{})
		require.NoError(t, err)
		require.Equal(t, task.StateSucceeded, infos[0].State)

		r.eventually(t, "/metrics", `leasehold_attempts_total{outcome="succeeded",phase="run",type="hello"} 1`)
		r.eventually(t, "/metrics", `leasehold_store_orphans{type="undeclared"} 1`)
		r.eventually(t, "/metrics", `leasehold_store_waiting{state="pending",type="undeclared"} 1`)
		r.eventually(t, "/metrics", `leasehold_store_agents_present 1`)
		r.stop(t)
	})
}

func TestAgentDrainsOnASignal(t *testing.T) {
	finish := filepath.Join(t.TempDir(), "finish")
	r := startAgent(t, `task "slow" {
  command {
    argv = ["sh", "-c", "until test -e `+finish+`; do sleep 0.02; done"]
  }
}`)
	r.eventually(t, "/-/ready", "ok")
	id, _, err := ops.Enqueue(t.Context(), r.agent.store, store.EnqueueRequest{Type: "slow"})
	require.NoError(t, err)
	r.eventually(t, "/metrics", `leasehold_running{type="slow"} 1`)

	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	r.becomes(t, "/-/ready", http.StatusServiceUnavailable, "the agent is draining")
	r.eventually(t, "/-/healthy", "ok")
	r.eventually(t, "/metrics", `leasehold_running{type="slow"} 1`)
	require.NoError(t, os.WriteFile(finish, nil, 0o600))
	require.NoError(t, <-r.ended)
	info, err := r.agent.store.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, task.StateSucceeded, info.State)
	require.Equal(t, 1, info.Attempt)
}

func TestCommandsThatRunAsRootAreNamed(t *testing.T) {
	command := func(user string) *task.Command { return &task.Command{User: user} }
	types := []*task.Type{
		{Name: "named", Target: command("www-data")},
		{Name: "unnamed", Target: command("")},
		{Name: "webhook", Target: &task.Webhook{}},
		{Name: "checked", Target: &task.Webhook{}, Check: command("")},
	}
	require.Equal(t, []string{"unnamed", "checked"}, runAsRoot(types, 0))
	require.Empty(t, runAsRoot(types, 1000))
}

func TestAgentEndsWithItsListener(t *testing.T) {
	r := startAgent(t, "")
	r.eventually(t, "/-/ready", "ok")
	require.NoError(t, r.agent.listener.Close())
	var f *failure
	require.ErrorAs(t, <-r.ended, &f)
	require.Equal(t, exitFailed, f.code)
}
