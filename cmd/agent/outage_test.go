package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// journal keeps what is logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Split(strings.TrimSpace(j.text.String()), "\n")
}

// cable is the connection to the test server, which can be cut.
type cable struct {
	server string

	mu   sync.Mutex
	cut  bool
	open []net.Conn
}

// newCable returns a cable and the URL that leads through it.
func newCable(t *testing.T) (*cable, string) {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	c := &cable{server: u.Host}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close(); c.set(true) })
	go func() { // ends with the listener
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			c.join(client)
		}
	}()
	u.Host = l.Addr().String()
	return c, u.String()
}

func (c *cable) join(client net.Conn) {
	server, err := net.DialTimeout("tcp", c.server, 5*time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || c.cut {
		_ = client.Close()
		if err == nil {
			_ = server.Close()
		}
		return
	}
	c.open = append(c.open, client, server)
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() { // ends with either connection
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
		}()
	}
}

func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	if !cut {
		return
	}
	for _, conn := range c.open {
		_ = conn.Close()
	}
	c.open = nil
}

// An outage of the store is one line when it begins and one when it is over, of all that fails meanwhile in all loops.
func TestOutageIsLoggedOnce(t *testing.T) {
	line, db := newCable(t)
	schema := pgtest.Schema(t)
	direct, err := openPostgres(t.Context(), config.Store{URL: pgtest.URL(t), Schema: schema, Connections: 2}, quiet(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, closeStore(direct)) })
	_, err = direct.Migrator().Up(t.Context())
	require.NoError(t, err)

	var logged journal
	r := startWith(t, fmt.Sprintf(`store {
  url    = %q
  schema = %q
}
task "hello" {
  command {
    argv = ["true"]
  }
}`, db, schema), slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelInfo})), func(*rig) {})
	r.eventually(t, "/-/ready", "ok")
	before := len(logged.lines())
	line.set(true)
	failed := time.Now()
	// What scrapes and probes ask fails, too.
	for time.Since(failed) < 4*time.Second {
		r.get(t, "/metrics")
		r.becomes(t, "/-/ready", http.StatusServiceUnavailable, "")
		<-time.After(200 * time.Millisecond)
	}
	line.set(false)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.Contains(c, strings.Join(logged.lines(), "\n"), "succeed again")
	}, 30*time.Second, 50*time.Millisecond)
	r.eventually(t, "/-/ready", "ok")

	warned := logged.lines()[before:]
	require.Len(t, warned, 2, strings.Join(warned, "\n"))
	require.Contains(t, warned[0], "store calls fail; the agent keeps trying")
	require.Contains(t, warned[1], "store calls succeed again")
	require.Regexp(t, `after=\d+\.?\d*s`, warned[1])
	require.Regexp(t, `failed=\d\d`, warned[1], "many calls failed")

	_, _, err = ops.Enqueue(context.WithoutCancel(t.Context()), r.agent.store, store.EnqueueRequest{Type: "hello"})
	require.NoError(t, err)
	r.stop(t)
}
