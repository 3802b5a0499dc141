package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestOneLargePayloadTakesLittleMemory runs a task with a payload of 40 MB: how much the agent takes for it at most, and what
// it keeps of that once it is idle.
func TestOneLargePayloadTakesLittleMemory(t *testing.T) {
	const size = 40_000_000
	for name, store := range failStopStores(t) {
		t.Run(name, func(t *testing.T) {
			came := make(chan int64, 100)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				n, _ := io.Copy(io.Discard, r.Body)
				came <- n
			}))
			t.Cleanup(server.Close)
			a := harness.StartAgent(t, harness.AgentOptions{
				Name: "agent", Store: store, Agent: "  workers = 4",
				Config: fmt.Sprintf("task \"big\" {\n  timeout = \"1m\"\n  webhook {\n    url = %q\n  }\n}", server.URL),
			})
			file := filepath.Join(t.TempDir(), "large.json")
			require.NoError(t, os.WriteFile(file, []byte(`{"d":"`+strings.Repeat("0123456789abcdef", size/16)+`"}`), 0o600))
			for _, args := range [][]string{
				{"migrate", "--max-payload", "64MiB", "--store", store}, {"enqueue", "big", "--payload", "@" + file, "--store", store},
			} {
				out, err := exec.CommandContext(t.Context(), harness.Binary(t), args...).CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			select {
			case n := <-came:
				require.Greater(t, n, int64(size))
			case <-time.After(2 * time.Minute):
				t.Fatal("it does not come")
			}
			comesBack(t, a, 120<<20)
			require.Less(t, memory(t, a, "VmHWM"), int64(300<<20))
			a.Drain(t)
		})
	}
}

// comesBack waits until an agent takes less than so many bytes, and logs what it takes, also where it does not come to that.
func comesBack(t *testing.T, a *harness.Agent, most int64) {
	t.Helper()
	began := time.Now()
	defer func() {
		t.Logf("after %s: %d MiB, %d of them anonymous; %d at most", time.Since(began), memory(t, a, "VmRSS")>>20, memory(t, a, "RssAnon")>>20,
			memory(t, a, "VmHWM")>>20)
	}()
	harness.Until(t, time.Minute, "idle memory comes back", func() bool { return memory(t, a, "VmRSS") < most })
}

// memory reads a figure of a process from /proc, in bytes.
func memory(t *testing.T, a *harness.Agent, what string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.PID()))
	require.NoError(t, err)
	found := regexp.MustCompile(what + `:\s+(\d+) kB`).FindSubmatch(text)
	require.NotNil(t, found)
	n, err := strconv.ParseInt(string(found[1]), 10, 64)
	require.NoError(t, err)
	return n << 10
}
