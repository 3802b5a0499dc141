package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestHTTPAPI enqueues and follows tasks of a real agent through its API, over a Unix socket.
func TestHTTPAPI(t *testing.T) {
	h := newHouse(t, 10)
	socket := filepath.Join(t.TempDir(), "s")
	agent := harness.StartAgent(t, harness.AgentOptions{
		Name: "api", Store: h.url, Listen: "unix://" + socket, Agent: "  advertise = \"http://127.0.0.1:7070\"\n",
		Config: fmt.Sprintf("task \"work\" {\n  webhook {\n    url = %q\n  }\n}", h.endpoint.url),
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: workWithin}
	ask := func(status int, method, path, body string, header ...string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://localhost/api/v1"+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := client.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, status, resp.StatusCode, "%s %s: %s", method, path, got)
		return string(got)
	}
	const row = `{"type": "work", "payload": {"n": 1}}`
	made := ask(201, "POST", "/tasks", row, "Idempotency-Key", "order-1")
	var id int64
	_, err := fmt.Sscanf(made, `{"id":%d,`, &id)
	require.NoError(t, err, made)
	require.Contains(t, ask(200, "GET", fmt.Sprintf("/tasks/%d/wait?timeout=60s", id), ""), `"state":"succeeded"`)
	require.Contains(t, ask(200, "POST", "/tasks", row, "Idempotency-Key", "order-1"), fmt.Sprintf(`{"id":%d,"new":false`, id), "it has finished")
	require.EqualValues(t, 1, h.number(`SELECT count(*) FROM leasehold.tasks`))

	ask(201, "POST", "/batches?type=work&name=two", `{"payload": {"n": 2}}`+"\n"+`{"payload": {"n": 3}}`, "Content-Type", "application/x-ndjson")
	h.emptied()
	require.Contains(t, ask(200, "GET", "/batches?name=two", ""), `"succeeded":2`)
	require.Contains(t, ask(200, "GET", "/health", ""), `"agents_claiming":1`)
	require.Contains(t, ask(200, "GET", "/agents", ""), `"name":"api"`)
	require.Contains(t, ask(200, "GET", "/declarations/task/work", ""), `"kind":"task"`)
	ask(403, "GET", "/tasks", "", "Origin", "http://evil.example")
	ask(200, "POST", "/agents/api/drain", "")
	require.Zero(t, agent.Wait(t), "it drains as it is told to")
}
