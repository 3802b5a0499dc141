package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheTokenGoesToNoOther has what listens at the agent's address redirect, and the environment name a proxy: neither is told the token.
func TestTheTokenGoesToNoOther(t *testing.T) {
	var told atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { told.Add(1) }))
	defer other.Close()
	t.Setenv("HTTP_PROXY", other.URL)
	t.Setenv("http_proxy", other.URL)
	var got string
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		http.Redirect(w, r, other.URL+"/take", http.StatusTemporaryRedirect)
	}))
	defer agent.Close()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		resp, err := agentAt{address: agent.URL, token: "geheim"}.ask(method, "/api/reload", 10*time.Second)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusTemporaryRedirect, resp.StatusCode)
		require.Equal(t, "Bearer geheim", got)
	}
	require.Zero(t, told.Load())
}

// TestWhoIsSentTheToken: none that listens on this host alone needs it.
func TestWhoIsSentTheToken(t *testing.T) {
	for _, c := range []struct{ listen, address, env, want string }{
		{listen: "127.0.0.1:7070"},
		{listen: "[::1]:7070", env: "other"},
		{listen: "localhost:7070"},
		{listen: "unix:///run/agent.sock"},
		{listen: "127.0.0.1:7070", address: "http://127.0.0.1:7071"},
		{listen: "127.0.0.1:7070", address: "http://127.0.0.1:7071", env: "other", want: "other"},
		{listen: "0.0.0.0:7070", want: "geheim"},
		{listen: ":7070", address: "http://127.0.0.1:7070", want: "geheim"},
		{listen: "10.0.0.1:7070", env: "other", want: "other"},
		{listen: "127.0.0.1:7070", address: "http://10.0.0.2:7070", want: "geheim"},
	} {
		t.Setenv("LEASEHOLD_TOKEN", c.env)
		path := filepath.Join(t.TempDir(), "agent.hcl")
		require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "agent {\n  listen = %q\n  advertise = \"http://here.example\"\n  token = \"geheim\"\n}\n", c.listen), 0o600))
		at, err := (&app{cli: &cli{Config: []string{path}}}).findAgent(c.address)
		require.NoError(t, err)
		require.Equal(t, cmp.Or(c.address, c.listen), at.address)
		require.Equal(t, c.want, at.token, "%+v", c)
	}
}
