package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestALostSQLiteFile: an agent notices that its file was moved away, says so and is not ready; and goes on once the file is back.
func TestALostSQLiteFile(t *testing.T) {
	t.Parallel()
	const saysMoved, saysBack = "the file was deleted or moved away", "the store is usable again"
	file := filepath.Join(t.TempDir(), "leasehold.db")
	listen := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t))
	a := harness.StartAgent(t, harness.AgentOptions{
		Name: "a", Store: "sqlite:" + file, Listen: listen, Agent: "  presence = \"5s\"", Says: []string{saysMoved, saysBack},
		Config: "task \"work\" {\n  command {\n    argv = [\"true\"]\n  }\n}",
	})
	ready := func() (status int, text string) {
		resp, err := (&http.Client{Timeout: sqlWithin}).Get("http://" + listen + "/-/ready") //nolint:noctx // it has a time limit
		require.NoError(t, err)
		defer func() { require.NoError(t, resp.Body.Close()) }()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	require.NoError(t, os.Rename(file, file+".away"))
	a.Await(t, saysMoved, workWithin) // without any request to it
	status, text := ready()
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, saysMoved)

	require.NoError(t, os.Rename(file+".away", file))
	a.Await(t, saysBack, workWithin)
	harness.MustRun(t, nil, "enqueue", "work", "--wait", "--store", "sqlite:"+file)
	require.Eventually(t, func() bool { // it asks the store at most once a second
		status, _ = ready()
		return status == http.StatusOK
	}, workWithin, 10*time.Millisecond)
	a.Drain(t)
}
