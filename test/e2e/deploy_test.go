package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestRollingDeploy: two agents are replaced one after the other, twice, while an application enqueues. At every moment one of them is ready, a task that
// takes longer than they drain is released and runs again, and no attempt fails or is lost.
func TestRollingDeploy(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		target := fmt.Sprintf("webhook {\n    url = %q\n  }", d.url)
		over := filepath.Join(t.TempDir(), "over")
		d.more = fmt.Sprintf("task \"long\" {\n  command {\n    argv = [\"sh\", \"-c\", \"until [ -e %s ]; do sleep 0.1; done\"]\n  }\n}\n", over)
		var agents [2]*harness.Agent
		var addresses [2]string
		start := func(i int) {
			d.listen = addresses[i]
			agents[i] = d.declare(fmt.Sprintf("agent-%d", i), target)
		}
		for i := range agents {
			addresses[i] = fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t))
			start(i)
		}

		ctx, cancel := context.WithCancel(t.Context())
		var around sync.WaitGroup
		defer around.Wait()
		defer cancel()
		var looks, unready atomic.Int64
		around.Go(func() { watchReady(ctx, addresses[0], addresses[1], &looks, &unready) })

		const long = 1
		d.exec(`INSERT INTO ` + d.schema() + `task (type) VALUES ('long')`)
		n := long
		for range 2 {
			for i := range agents {
				d.becomes(long, "running")
				for range 5 {
					d.exec(`INSERT INTO ` + d.schema() + `task (type, payload) VALUES ('work', '{"run": ["slow"]}'), ('work', '{}')`)
					n += 2
				}
				agents[i].Drain(t)
				start(i)
			}
		}
		require.NoError(t, os.WriteFile(over, nil, 0o600))
		d.awaitMany(n, "succeeded")
		cancel()
		around.Wait()
		require.Positive(t, looks.Load())
		require.Zero(t, unready.Load(), "of %d looks found no agent that was ready", looks.Load())
		for id := int64(1); id <= int64(n); id++ {
			for _, outcome := range d.outcomes(id) {
				require.Contains(t, []string{"succeeded", "drained"}, outcome, "task %d", id)
			}
		}
		require.Contains(t, d.outcomes(long), "drained")
		for _, a := range agents {
			a.Drain(t)
		}
	})
}

// watchReady counts looks at two agents of which one is always ready, and those that found neither, until ctx ends.
func watchReady(ctx context.Context, one, other string, looks, unready *atomic.Int64) {
	client := &http.Client{Timeout: sqlWithin, Transport: &http.Transport{DisableKeepAlives: true}}
	ready := func(address string) bool {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/-/ready", http.NoBody)
		if err != nil {
			panic(err) // the address is right
		}
		resp, err := client.Do(r)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		// The first is asked twice: it may have become ready after it was asked, and the other have begun to drain at once.
		found := ready(one) || ready(other) || ready(one)
		if ctx.Err() != nil {
			continue
		}
		looks.Add(1)
		if !found {
			unready.Add(1)
		}
	}
}
