package postgres_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// connections keeps what checks have connected with, by URL, for the next call: a new backend reads the catalogue and compiles
// each function again, which takes longer than what it is asked. The zero value is ready; a nil one keeps nothing.
type connections struct {
	mu    sync.Mutex
	idle  map[string][]*pgx.Conn
	pools map[string][]postgres.Pools
}

// pooled returns options with which a store uses the connections of an earlier one, until the test is over.
func (c *connections) pooled(t testing.TB, o postgres.Options) postgres.Options {
	t.Helper()
	if c == nil {
		return o
	}
	p, ok := c.takePools(o.URL)
	if !ok {
		o.Log = slog.New(slog.DiscardHandler)
		var err error
		p, err = postgres.NewPools(context.Background(), o)
		require.NoError(t, err)
	}
	t.Cleanup(func() { c.putPools(o.URL, p) }) // after the store is closed
	return o.WithPools(p)
}

func (c *connections) takePools(url string) (p postgres.Pools, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := c.pools[url]
	if len(idle) == 0 {
		return p, false
	}
	c.pools[url] = idle[:len(idle)-1]
	return idle[len(idle)-1], true
}

// putPools keeps pools, or closes them if a call is not over, as Close of a store would wait for.
func (c *connections) putPools(url string, p postgres.Pools) {
	if !p.Idle() {
		p.Close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pools == nil {
		c.pools = make(map[string][]postgres.Pools)
	}
	c.pools[url] = append(c.pools[url], p)
}

// connection returns a connection that is in no transaction, and what returns it.
func (c *connections) connection(t testing.TB, url string) (conn *pgx.Conn, end func()) {
	t.Helper()
	if c == nil {
		return pgtest.Connection(t, url)
	}
	conn = c.take(url)
	if conn == nil {
		conn, _ = pgtest.Connection(t, url)
	}
	return conn, sync.OnceFunc(func() { c.put(url, conn) })
}

func (c *connections) take(url string) *pgx.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := c.idle[url]
	if len(idle) == 0 {
		return nil
	}
	c.idle[url] = idle[:len(idle)-1]
	return idle[len(idle)-1]
}

// put keeps a connection, or closes one that is broken or in a transaction still.
func (c *connections) put(url string, conn *pgx.Conn) {
	if conn.IsClosed() || conn.PgConn().IsBusy() || conn.PgConn().TxStatus() != 'I' {
		closeConnection(conn)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle == nil {
		c.idle = make(map[string][]*pgx.Conn)
	}
	c.idle[url] = append(c.idle[url], conn)
}

// close closes those that are idle.
func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, idle := range c.idle {
		for _, conn := range idle {
			closeConnection(conn)
		}
	}
	for _, idle := range c.pools {
		for _, p := range idle {
			p.Close()
		}
	}
	c.idle, c.pools = nil, nil
}

func closeConnection(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it is closed in any case
}
