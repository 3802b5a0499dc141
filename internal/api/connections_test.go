package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// from is a listener whose connections look as if they came from the addresses that the test names, in turn.
type from struct {
	net.Listener
	remote chan string
}

type remoteConn struct {
	net.Conn
	remote string
}

func (c remoteConn) RemoteAddr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", c.remote)
	return a
}

func (l from) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || l.remote == nil {
		return c, err
	}
	return remoteConn{c, <-l.remote}, nil
}

// bounded starts a server that keeps so many connections, and returns a function that connects, and the server's book.
func bounded(t *testing.T, limit int, handler http.Handler, remote bool) (connect func(addr string) net.Conn, book *connections) {
	t.Helper()
	l := from{Listener: listen(t, "127.0.0.1:0")}
	if remote {
		l.remote = make(chan string, 100)
	}
	s := New(l, Options{Gatherer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Connections: limit, Pings: handler})
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx) // connections that have asked nothing are cut off
		require.NoError(t, <-served)
	})
	return func(addr string) net.Conn {
		if remote {
			l.remote <- addr
		}
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}, s.listener.book
}

// settled waits until so many connections wait for a request, and none is being answered or closed: a client has its
// response a little earlier than that.
func (b *connections) settled(t *testing.T, waiting int) {
	t.Helper()
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		n := 0
		for _, p := range b.peers {
			n += p.waiting.Len()
		}
		return n == waiting && b.open == waiting
	}, 20*time.Second, time.Millisecond)
}

// get asks on a connection and returns the answer; nil where the connection is closed.
func get(c net.Conn, path string) *http.Response {
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
		return nil
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp
}

// alive reports whether the server has left a connection open that asks nothing.
func alive(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

func TestTheConnectionThatIsIdleForLongestMakesRoom(t *testing.T) {
	connect, book := bounded(t, 8, nil, false)
	var conns []net.Conn
	for i := range 5 {
		c := connect("")
		resp := get(c, "/-/healthy")
		require.NotNil(t, resp)
		require.False(t, resp.Close, "there is room")
		book.settled(t, i+1)
		conns = append(conns, c)
	}
	for range 3 {
		c := connect("")
		resp := get(c, "/-/healthy")
		require.NotNil(t, resp)
		require.True(t, resp.Close, "it is crowded: Connection: close")
		book.settled(t, 5)
	}
	for range 3 { // silent; the first five have answers behind them, the three of before were closed
		conns = append(conns, connect(""))
		book.settled(t, len(conns))
	}
	require.NotNil(t, get(connect(""), "/-/healthy"))
	require.Nil(t, get(conns[0], "/-/healthy"), "idle for longest")
	require.NotNil(t, get(conns[4], "/-/healthy"))
}

func TestFloodDoesNotKeepOthersOut(t *testing.T) {
	connect, _ := bounded(t, 32, nil, true)
	kept := connect("192.0.2.7:1000")
	require.NotNil(t, get(kept, "/-/healthy"))
	for i := range 200 {
		c := connect(fmt.Sprintf("192.0.2.66:%d", 1000+i))
		if i%2 == 0 { // a header that does not end
			_, err := io.WriteString(c, "GET / HTTP/1.1\r\nX-Slow: ")
			require.NoError(t, err)
		}
	}
	began := time.Now()
	require.NotNil(t, get(connect("192.0.2.8:1000"), "/-/healthy"))
	require.Less(t, time.Since(began), time.Second)
	resp := get(kept, "/-/healthy")
	require.NotNil(t, resp, "the connection of another address was left alone")
	require.NotNil(t, get(connect("192.0.2.66:9"), "/-/healthy"), "even that address is answered")
}

// What is being answered is not closed; who comes then waits, or is refused where its address has its share.
func TestBusyConnectionsAreKept(t *testing.T) {
	enter, leave := make(chan struct{}, 100), make(chan struct{})
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		enter <- struct{}{}
		<-leave
	})
	connect, _ := bounded(t, 16, handler, true)
	answers := make(chan *http.Response, 100)
	var asking sync.WaitGroup
	ask := func(addr string) {
		c := connect(addr)
		asking.Go(func() { answers <- get(c, "/ping/x") })
	}
	for range 8 { // the share of one
		ask("192.0.2.1:1")
	}
	for range 8 {
		<-enter
	}
	require.Nil(t, get(connect("192.0.2.1:2"), "/-/healthy"), "no more than its share")
	for range 8 {
		ask("192.0.2.2:1")
	}
	for range 8 {
		<-enter
	}
	last := connect("192.0.2.3:1")
	require.True(t, alive(last), "it waits for a place")
	close(leave)
	asking.Wait()
	for range 16 {
		require.NotNil(t, <-answers)
	}
	require.NotNil(t, get(last, "/-/healthy"))
}

// A client that has connected and asks nothing does not hold up a shutdown, nor make it fail.
func TestSilentConnectionsDoNotDelayShutdown(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	s := New(l, Options{Gatherer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	for i := range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		s.listener.book.settled(t, i+1)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // net/http alone would wait for 5 s
	defer cancel()
	require.NoError(t, s.Shutdown(ctx))
	require.NoError(t, <-served)
}

func TestSlowRequestsAreCutOff(t *testing.T) {
	t.Parallel()
	connect, _ := bounded(t, 8, nil, false)
	began := time.Now()
	c, silent := connect(""), connect("")
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nX-Slow: ")
	require.NoError(t, err)
	for _, c := range []net.Conn{c, silent} {
		require.NoError(t, c.SetReadDeadline(began.Add(4*headerTimeout)))
		_, err = io.Copy(io.Discard, c)
		require.NoError(t, err, "the server ends it")
	}
	require.GreaterOrEqual(t, time.Since(began), headerTimeout/2)
}

// Agents share an address space, hosts of IPv6 a network.
func TestAddressesThatShare(t *testing.T) {
	b := newConnections(100, slog.New(slog.DiscardHandler))
	at := func(remote string) string {
		key, share := b.address(remoteConn{remote: remote})
		return fmt.Sprint(key, " ", share)
	}
	require.Equal(t, "192.0.2.1/32 50", at("192.0.2.1:5"))
	require.Equal(t, at("192.0.2.1:5"), at("[::ffff:192.0.2.1]:6"))
	require.Equal(t, "2001:db8:1:2::/64 50", at("[2001:db8:1:2:3:4:5:6]:5"))
	require.Equal(t, at("127.0.0.1:1"), at("[::1]:1"))
	require.Equal(t, "invalid Prefix 100", at("127.0.0.1:1"))
}
