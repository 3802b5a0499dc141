package main

import (
	"net/http"
	"net/http/httptest"
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
