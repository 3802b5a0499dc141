package pgsource_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/chunk/pgsource"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// gate forwards connections to a server, until it swallows what the server says: it looks alive, and never answers.
type gate struct {
	net.Listener
	silent atomic.Bool
}

// newGate returns a gate before the server of a URL, and the URL of the gate.
func newGate(t *testing.T, server string) (*gate, string) {
	t.Helper()
	u, err := url.Parse(server)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g, address := &gate{Listener: l}, u.Host
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { g.forward(ctx, client, address) })
		}
	})
	t.Cleanup(func() {
		cancel()
		require.NoError(t, l.Close())
		all.Wait()
	})
	u.Host = l.Addr().String()
	return g, u.String()
}

func (g *gate) forward(ctx context.Context, client net.Conn, address string) {
	server, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		_ = client.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
	both.Go(func() {
		_, _ = io.Copy(writes(func(p []byte) (int, error) {
			if g.silent.Load() {
				return len(p), nil
			}
			return client.Write(p)
		}), server)
	})
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	defer stop()
	both.Wait()
	_ = client.Close()
}

type writes func([]byte) (int, error)

func (w writes) Write(p []byte) (int, error) { return w(p) }

// A server that falls silent in the middle of a transaction does not keep the caller longer than its statements may take.
func TestASilentServerIsNotWaitedForForever(t *testing.T) {
	t.Parallel()
	name := schema(t, "k integer NOT NULL PRIMARY KEY, status integer NOT NULL DEFAULT 0")
	g, at := newGate(t, pgtest.URL(t))
	s := open(t, at, name, nil)
	require.NoError(t, s.Check(t.Context()))
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := pgsource.Silently(ctx, s, func() { g.silent.Store(true) })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, ctx.Err())
	require.Less(t, time.Since(began), 20*time.Second)
}
