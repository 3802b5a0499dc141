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
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// newConns reports new connections of a server.
func newConns(to chan<- struct{}) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			to <- struct{}{}
		}
	}
}

// refusing returns a URL whose port refuses connections.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return "http://" + l.Addr().String()
}

// raw serves connections with f, which owns them, and gives its URL. All are closed and done with at the test's end.
func raw(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				f(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return "http://" + l.Addr().String()
}

// request reads one whole request.
func request(c net.Conn) bool {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

// closed waits until the client has closed the connection.
func closed(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func TestRefused(t *testing.T) {
	began := time.Now()
	o := run(t, client(t), exectest.Attempt{}, to(refusing(t)+"/secret-path"))
	require.Equal(t, task.Undelivered, o.Verdict)
	require.True(t, o.NeverStarted)
	require.False(t, o.EndUnknown)
	require.Contains(t, o.Error, "connection refused")
	require.NotContains(t, o.Error, "secret-path")
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestComesBackWithinTheAttempt(t *testing.T) {
	url := refusing(t)
	l := exectest.Attempt{}.Lease()
	defer l.Close()
	w := to(url)
	w.Secrets = []string{"c2VjcmV0"}
	d := &delivery{client: client(t), hold: l}
	d.message, _ = d.client.Message(l, declared(w), w)
	d.signer, _ = newSigner(w.Secrets)

	var s *httptest.Server
	t.Cleanup(func() { s.Close() })
	wh, err := standardwebhooks.NewWebhook(w.Secrets[0])
	require.NoError(t, err)
	verified := make(chan error, 2)
	// The server starts while the first try is refused: deterministic, as the hook runs in the try itself.
	d.client.tries = roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := d.client.transport.RoundTrip(r)
		if s == nil {
			require.Error(t, err)
			listener, lerr := net.Listen("tcp", strings.TrimPrefix(url, "http://"))
			require.NoError(t, lerr)
			s = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				verified <- wh.Verify(body, r.Header)
			}))
			require.NoError(t, s.Listener.Close())
			s.Listener = listener
			s.Start()
			d.message.Header.Set("Webhook-Signature", "v1,of-the-first-try")
		}
		return resp, err
	})
	resp, err := d.send(context.Background())
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, <-verified, "every try is signed anew")
	require.Empty(t, verified)
}

// What never left is tried as often as it says, the first try counted once, and the backoff begins after it.
func TestTriesOfWhatNeverLeft(t *testing.T) {
	c, tries := client(t), 0
	c.tries = roundTrip(func(r *http.Request) (*http.Response, error) {
		tries++
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), `"invoice": 7`, "each has the whole body")
		return nil, errors.New("no way there")
	})
	began := time.Now()
	o := run(t, c, exectest.Attempt{}, to("http://192.0.2.1"))
	require.Equal(t, task.Undelivered, o.Verdict)
	require.Equal(t, "could not be sent: no way there", o.Error)
	require.Equal(t, 1+maxRetries, tries)
	require.GreaterOrEqual(t, time.Since(began), 15*retryMin, "1 + 2 + 4 + 8")
}

func TestUserInTheURL(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("Authorization")) })
	w := to(strings.Replace(url, "http://", "http://me:secret@", 1))
	require.Equal(t, `"Basic bWU6c2VjcmV0"`, string(run(t, client(t), exectest.Attempt{}, w).Result))
	w.Headers = map[string]task.Template{"Authorization": exectest.Text("Bearer declared")}
	require.Equal(t, `"Bearer declared"`, string(run(t, client(t), exectest.Attempt{}, w).Result))
}

func TestTLSHandshakeFailsIsNotSent(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("sent") }))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	o := run(t, client(t), exectest.Attempt{}, to(s.URL))
	require.Equal(t, task.Undelivered, o.Verdict)
	require.True(t, o.NeverStarted)
	require.Contains(t, o.Error, "certificate")
}

func TestOverTLS(t *testing.T) {
	var lost atomic.Bool
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lost.Load() {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_ = conn.Close()
			return
		}
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	c := client(t)
	c.transport.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	c.transport.TLSClientConfig.NextProtos = nil
	c.transport.TLSClientConfig.MinVersion = tls.VersionTLS12
	for range 2 {
		o := run(t, c, exectest.Attempt{}, to(s.URL))
		require.Equal(t, `"HTTP/1.1"`, string(o.Result), o.Error)
	}
	lost.Store(true)
	o := run(t, c, exectest.Attempt{}, to(s.URL))
	require.Equal(t, task.Failed, o.Verdict)
	require.True(t, o.EndUnknown, "TLS hides nothing of what was written")
}

func TestConnectionLostAfterSending(t *testing.T) {
	for name, answer := range map[string]string{
		"no byte":      "",
		"half a line":  "HTTP/1.1 20",
		"half header":  "HTTP/1.1 200 OK\r\nContent-Le",
		"short body":   "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
		"short 422":    "HTTP/1.1 422 No\r\nContent-Length: 10\r\n\r\nshort",
		"cut chunks":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"not HTTP":     "SSH-2.0-OpenSSH_9.2\r\n",
		"endless head": "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			url := raw(t, func(c net.Conn) {
				calls.Add(1)
				if request(c) {
					_, _ = io.WriteString(c, answer)
				}
			})
			w := to(url)
			w.IdempotencyKey = true // makes Go's transport replay a POST, where it can
			o := run(t, client(t), exectest.Attempt{}, w)
			require.Equal(t, task.Failed, o.Verdict)
			require.True(t, o.EndUnknown)
			require.False(t, o.NeverStarted)
			require.NotEmpty(t, o.Error)
			require.EqualValues(t, 1, calls.Load(), "sent once")
		})
	}
}

// A connection that was reset after the request was written to it may have been served, reused or not.
func TestReusedConnectionLostAfterSending(t *testing.T) {
	var served atomic.Int32
	url := raw(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for range 2 {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if served.Add(1) == 2 {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	c, w := client(t), to(url)
	w.IdempotencyKey = true
	require.Equal(t, task.Succeeded, run(t, c, exectest.Attempt{}, w).Verdict)
	o := run(t, c, exectest.Attempt{}, w)
	require.Equal(t, task.Failed, o.Verdict)
	require.True(t, o.EndUnknown)
	require.EqualValues(t, 2, served.Load(), "not sent again")
}

// A server that closes a connection after each answer, without saying so, costs no attempt, and gets each request once.
func TestServerClosesIdleConnections(t *testing.T) {
	const n = 300
	var served atomic.Int32
	url := raw(t, func(c net.Conn) {
		if request(c) {
			served.Add(1)
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	c := client(t)
	for range n {
		// Whether the transport or our own look finds the connection closed is up to chance. What must not happen
		// is that a request is counted as sent and lost.
		o := run(t, c, exectest.Attempt{}, to(url))
		if o.Verdict != task.Succeeded {
			require.True(t, o.EndUnknown, "unless the close came while the request was on its way: %+v", o)
			served.Add(1)
		}
	}
	require.EqualValues(t, n, served.Load())
}

func TestEnded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer dialed.Close()
	server, err := l.Accept()
	require.NoError(t, err)
	c := &countedConn{Conn: dialed}
	require.False(t, c.ended(), "open and silent")
	_, err = io.WriteString(server, "x")
	require.NoError(t, err)
	require.NoError(t, server.Close())
	one := make([]byte, 1)
	_, err = io.ReadFull(c, one)
	require.NoError(t, err)
	_, err = c.Read(one)
	require.ErrorIs(t, err, io.EOF)
	require.True(t, c.ended())
	require.NoError(t, dialed.Close())
	require.True(t, c.ended(), "closed here")
}

func TestStaleConnectionIsNotWrittenTo(t *testing.T) {
	var served atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	t.Cleanup(s.Close)
	c := client(t)
	l := exectest.Attempt{}.Lease()
	defer l.Close()
	d := &delivery{client: c, hold: l}
	d.message, _ = c.Message(l, declared(to(s.URL)), to(s.URL))
	// The transport hands out a connection that the server is done with: shut for reading here is what its FIN does.
	dial := c.transport.DialContext
	dials := 0
	c.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		conn, err := dial(ctx, network, address)
		if dials == 1 && err == nil {
			conn.(*countedConn).Conn = &deafConn{TCPConn: conn.(*countedConn).Conn.(*net.TCPConn)}
		}
		return conn, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	resp, err := d.send(ctx)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	s.CloseClientConnections()
	resp, err = d.send(ctx)
	require.NoError(t, err, "sent on a new connection, without a wait")
	_, _ = io.Copy(io.Discard, resp.Body)
	require.Equal(t, 2, dials)
	require.EqualValues(t, 2, served.Load())
}

// deafConn does not notice that its peer is gone: its reader goes on waiting.
type deafConn struct{ *net.TCPConn }

func (d *deafConn) Read(p []byte) (int, error) {
	n, err := d.TCPConn.Read(p)
	if n == 0 && errors.Is(err, io.EOF) {
		_ = d.TCPConn.SetReadDeadline(time.Time{})
		rc, rerr := d.TCPConn.SyscallConn()
		if rerr == nil {
			_ = rc.Read(func(uintptr) bool { return false }) // until it is closed here
		}
		err = os.ErrClosed
	}
	return n, err
}
