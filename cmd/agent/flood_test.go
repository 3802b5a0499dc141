package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// flood opens connections to an agent and keeps them, so many at once, until ctx ends: those that the agent closes are
// opened anew. Of each four one is silent, one sends a header that does not end, and two ask something and then nothing.
func flood(ctx context.Context, addr string, at int, opened *atomic.Int64) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range at {
		all.Go(func() {
			for ctx.Err() == nil {
				c, err := net.DialTimeout("tcp", addr, 5*time.Second)
				if err != nil {
					return
				}
				opened.Add(1)
				stop := context.AfterFunc(ctx, func() { _ = c.Close() })
				switch i % 4 {
				case 1:
					_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
				case 2, 3:
					_, _ = io.WriteString(c, "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n")
				}
				_, _ = io.Copy(io.Discard, c)
				stop()
				_ = c.Close()
				select { // an attacker with all the time in the world would keep two cores busy, and prove no more
				case <-ctx.Done():
				case <-time.After(2 * time.Second):
				}
			}
		})
	}
}

// accepting is an application that takes every task with 202, and notes where to ping for it.
type accepting struct {
	mu   sync.Mutex
	urls []string
}

func (a *accepting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	a.mu.Lock()
	a.urls = append(a.urls, r.Header.Get("Leasehold-Ping-Url"))
	a.mu.Unlock()
	w.WriteHeader(http.StatusAccepted)
}

func (a *accepting) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.urls)
}

// pingAll pings each URL until it is answered, some at a time, and gives how long each took, in order of that.
func pingAll(t *testing.T, urls []string) []time.Duration {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	took := make([]time.Duration, len(urls))
	var next atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(urls); i = int(next.Add(1)) - 1 {
				began := time.Now()
				for {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, urls[i], strings.NewReader("{}"))
					if err != nil {
						t.Error(err)
						return
					}
					resp, err := client.Do(req)
					if err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
					if err == nil && resp.StatusCode == http.StatusOK {
						break
					}
					if time.Since(began) > 30*time.Second {
						t.Errorf("a ping was not answered: %v", err)
						return
					}
				}
				took[i] = time.Since(began)
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return took
}

// An agent with few descriptors is flooded with connections: accepted tasks still ping, and commands still start.
func TestFlood(t *testing.T) {
	const commands, connections = 100, 1200
	accepted := harness.Sized(3_000, 10_000)
	dir := t.TempDir()
	app := &accepting{}
	target := httptest.NewServer(app)
	t.Cleanup(target.Close)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "leasehold.hcl"), []byte(`agent {
  listen  = "127.0.0.1:0"
  workers = 8
}
task "accepted" {
  timeout   = "2h"
  heartbeat = "1h"
  webhook {
    url   = "`+target.URL+`"
    async = true
  }
}
task "command" {
  command {
    argv = ["sh", "-c", "ulimit -Sn"]
  }
}
`), 0o600))
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	agent := exec.Command("sh", "-c", "set -e; ulimit -Sn 300; ulimit -Hn 512; exec leasehold run leasehold.hcl")
	agent.Dir, agent.Stderr = dir, log
	require.NoError(t, agent.Start())
	t.Cleanup(func() { _, _ = agent.Process.Kill(), agent.Wait() })
	said := func(what string) bool {
		text, err := os.ReadFile(log.Name())
		require.NoError(t, err)
		return strings.Contains(string(text), what)
	}
	require.Eventually(t, func() bool { return said("agent ready") }, 30*time.Second, 20*time.Millisecond)

	db, err := sql.Open("sqlite", filepath.Join(dir, "leasehold.db")+"?_pragma=busy_timeout(20000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	number := func(query string) (n int) {
		require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n))
		return n
	}
	insert := func(typ string, n int) {
		_, err := db.ExecContext(t.Context(), fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
INSERT INTO task (type, payload) SELECT '%s', '{}' FROM n`, n, typ))
		require.NoError(t, err)
	}
	insert("accepted", accepted)
	require.Eventually(t, func() bool { return len(app.all()) >= accepted }, 5*time.Minute, 100*time.Millisecond)
	urls := app.all()
	u, err := url.Parse(urls[0])
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	var opened atomic.Int64
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		flood(ctx, u.Host, connections, &opened)
	}()
	defer func() { <-flooded }()
	defer stop()
	require.Eventually(t, func() bool { return opened.Load() >= connections }, time.Minute, 10*time.Millisecond)
	insert("command", commands)
	took := pingAll(t, urls)
	t.Logf("pings: median %s, 99%% within %s, the last %s; %d connections opened beside them",
		took[len(took)/2], took[len(took)*99/100], took[len(took)-1], opened.Load())
	require.Less(t, took[len(took)*95/100], time.Second) // the rest is the scheduler's, of a machine with others on it
	require.Eventually(t, func() bool {
		return number(`SELECT count(*) FROM task_archive WHERE type = 'command'`) == commands
	}, time.Minute, 100*time.Millisecond)
	require.Zero(t, number(`SELECT count(*) FROM attempt`), "none was released or failed")
	require.Equal(t, commands, number(`SELECT count(*) FROM task_archive WHERE type = 'command' AND output = '300' || char(10)`),
		"what commands inherit is the limit that the agent was started with")
	require.Equal(t, accepted, number(`SELECT count(*) FROM task WHERE type = 'accepted' AND state = 'running'`))
	stop()
	<-flooded
	require.NoError(t, agent.Process.Signal(syscall.SIGTERM))
	require.NoError(t, agent.Wait())
	require.True(t, said("the listener has reached its limit of connections"))
}
