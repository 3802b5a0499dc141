package webhook

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"
)

// A server that closes each connection after its answer, without saying so, costs next to no attempt. What remains are
// the first few requests, which may be in its hands already when it closes: then its kernel answers with a mere reset.
func TestServerClosesAfterEachAnswer(t *testing.T) {
	const workers = 8
	authority := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(authority.Close)
	for name, over := range map[string]*tls.Config{"plain": nil, "TLS": authority.TLS} {
		t.Run(name, func(t *testing.T) {
			var served atomic.Int64
			url := raw(t, func(c net.Conn) {
				if over != nil {
					c = tls.Server(c, over)
					defer c.Close()
				}
				if request(c) {
					served.Add(1)
					_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
				}
			})
			c := New(Options{Workers: workers})
			defer c.Close()
			if over != nil {
				url = strings.Replace(url, "http:", "https:", 1)
				trust := authority.Client().Transport.(*http.Transport).TLSClientConfig
				for _, transport := range []*http.Transport{c.transport, c.single} {
					transport.TLSClientConfig.RootCAs = trust.RootCAs
					transport.TLSClientConfig.ServerName = "example.com"
				}
			}
			n := int64(2000)
			if over != nil {
				n = 300 // handshakes
			}
			left, succeeded, failed := atomic.Int64{}, atomic.Int64{}, atomic.Int64{}
			left.Store(n)
			var all sync.WaitGroup
			for range workers {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						o := run(t, c, exectest.Attempt{}, to(url))
						if o.Verdict == task.Succeeded {
							succeeded.Add(1)
							continue
						}
						failed.Add(1)
						if o.Verdict != task.Failed || !o.EndUnknown {
							t.Errorf("%+v", o)
						}
					}
				})
			}
			all.Wait()
			t.Logf("%d of %d failed", failed.Load(), n)
			require.LessOrEqual(t, failed.Load(), int64(2*workers))
			require.GreaterOrEqual(t, served.Load(), succeeded.Load())
			require.LessOrEqual(t, served.Load(), n, "none twice within an attempt")
		})
	}
}

// turnstile is a connection on which the test decides what happens around the second request: its reader learns of the
// end only once the request is written.
type turnstile struct {
	*net.TCPConn
	before  func(*net.TCPConn) // the write of the second request
	writes  atomic.Int32
	written chan struct{}
}

func (c *turnstile) Write(p []byte) (int, error) {
	if c.writes.Add(1) != 2 {
		return c.TCPConn.Write(p)
	}
	defer close(c.written)
	c.before(c.TCPConn)
	return c.TCPConn.Write(p)
}

func (c *turnstile) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if err != nil {
		<-c.written
	}
	return n, err
}

// second sends two requests over one connection; before is called when the second is about to be written.
func second(t *testing.T, url string, before func(*net.TCPConn)) (o task.Outcome, dials int) {
	t.Helper()
	c := client(t)
	dial := c.transport.DialContext
	c.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if dials++; dials == 1 && err == nil {
			ours := conn.(*countedConn)
			ours.Conn = &turnstile{TCPConn: ours.Conn.(*net.TCPConn), before: before, written: make(chan struct{})}
		}
		return conn, err
	}
	require.Equal(t, task.Succeeded, run(t, c, exectest.Attempt{}, to(url)).Verdict)
	return run(t, c, exectest.Attempt{}, to(url)), dials
}

// What was written after the server had closed the connection never reached it, and is sent anew within the attempt.
func TestRequestThatCrossedTheServersFin(t *testing.T) {
	hangUp := make(chan struct{})
	var served, conns atomic.Int32
	url := raw(t, func(c net.Conn) {
		first := conns.Add(1) == 1
		for request(c) {
			served.Add(1)
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			if first {
				<-hangUp
				return
			}
		}
	})
	o, dials := second(t, url, func(c *net.TCPConn) {
		close(hangUp)
		require.Eventually(t, func() bool {
			state, _, ok := tcpState(c)
			return ok && state == finSeen
		}, 10*time.Second, time.Millisecond)
	})
	require.Equal(t, task.Outcome{Verdict: task.Succeeded}, o)
	require.Equal(t, 2, dials)
	require.EqualValues(t, 2, served.Load(), "each once")
}

// A reset proves nothing: it also comes from a server that has read the request, and acted on it.
func TestRequestThatWasResetMayHaveBeenTaken(t *testing.T) {
	for name, reads := range map[string]bool{"read": true, "not read": false} {
		t.Run(name, func(t *testing.T) {
			var conns, served atomic.Int32
			url := raw(t, func(c net.Conn) {
				conns.Add(1)
				r := bufio.NewReader(c)
				for range 2 {
					if _, err := r.Peek(1); err != nil {
						return
					}
					if served.Add(1) == 2 && !reads {
						break
					}
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					if served.Load() == 1 {
						_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
					}
				}
				_ = c.(*net.TCPConn).SetLinger(0) // close resets
			})
			o, dials := second(t, url, func(*net.TCPConn) {})
			require.Equal(t, task.Failed, o.Verdict)
			require.True(t, o.EndUnknown)
			require.Equal(t, 1, dials, "not sent again")
			require.EqualValues(t, 2, served.Load())
		})
	}
}

// A server that reads the request and then closes in good order has acknowledged it.
func TestRequestThatWasReadBeforeTheFin(t *testing.T) {
	var served atomic.Int32
	url := raw(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for range 2 {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if served.Add(1) == 1 {
				_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			}
		}
	})
	o, dials := second(t, url, func(*net.TCPConn) {})
	require.Equal(t, task.Failed, o.Verdict)
	require.True(t, o.EndUnknown)
	require.Equal(t, 1, dials)
	require.EqualValues(t, 2, served.Load())
}

// After a write has failed with a reset, a read may return a mere EOF: that is no FIN.
func TestResetSeenByTheWriter(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	c := newConn(dialed)
	server, err := l.Accept()
	require.NoError(t, err)
	require.NoError(t, server.(*net.TCPConn).SetLinger(0))
	require.NoError(t, server.Close())
	require.Eventually(t, func() bool {
		_, err = c.Write([]byte("x"))
		return err != nil
	}, 10*time.Second, time.Millisecond)
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	require.False(t, errors.Is(err, io.EOF) && c.refused(0), "broken: %v", c.broken.Load())
	_ = c.Close()
	require.False(t, c.refused(0))
}
