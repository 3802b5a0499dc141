package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
)

const (
	// maxDirect is the size in bytes of the largest request that is sent directly. So much fits into the buffers of the two
	// kernels even if the server reads nothing: a server that answers before it has read the request delays nothing.
	maxDirect = 16 << 10
	// maxInterim is how many interim responses (1xx) may come before the response.
	maxInterim = 5
)

// direct is a transport for small requests over HTTP/1.1 without TLS. It writes the request and reads the response in the
// caller's goroutine, while net/http hands both to two more goroutines for each connection, which costs a third of a request.
// It formats and parses with net/http. All other requests go to other, which also dials.
type direct struct {
	other *http.Transport
	lines lines
}

// CloseIdleConnections closes the connections that no request uses.
func (d *direct) CloseIdleConnections() {
	d.lines.closeIdle()
	d.other.CloseIdleConnections()
}

// RoundTrip sends a request, once, and returns the response. The context of the request bounds both, and reading the body.
// Nothing of the request is written any more once RoundTrip has returned an error.
func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isDirect(r) {
		return d.other.RoundTrip(r)
	}
	ctx := r.Context()
	l, err := d.line(ctx, r.URL)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper has to
		}
		return nil, err
	}
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: l.conn, Reused: l.used})
	}
	if c, ok := l.conn.(*countedConn); ok {
		c.probe.Store(false) // take has looked
	}
	l.used = true
	stop := context.AfterFunc(ctx, func() { _ = l.conn.Close() })
	resp, err := l.exchange(r)
	if err != nil {
		stop()
		_ = l.conn.Close()
		if ended := context.Cause(ctx); ended != nil {
			err = ended
		}
		return nil, err
	}
	b := &body{ReadCloser: resp.Body, ctx: ctx, line: l, lines: &d.lines, stop: stop, keep: !resp.Close && resp.StatusCode >= 200}
	if resp.Body == http.NoBody {
		b.end(true)
	} else {
		resp.Body = b
	}
	return resp, nil
}

// line returns a connection to the host of a URL: an idle one, or a new one.
func (d *direct) line(ctx context.Context, u *url.URL) (*line, error) {
	if l := d.lines.take(u.Host); l != nil {
		return l, nil
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	conn, err := d.dial(ctx, net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	return newLine(u.Host, conn), nil
}

// dial opens a connection, and returns at the end of ctx even if the dialer does not.
func (d *direct) dial(ctx context.Context, address string) (net.Conn, error) {
	type dialed struct {
		conn net.Conn
		err  error
	}
	ready := make(chan dialed)
	go func() { // ends within dialTimeout
		conn, err := d.other.DialContext(ctx, "tcp", address)
		select {
		case ready <- dialed{conn, err}:
		case <-ctx.Done():
			if err == nil {
				_ = conn.Close()
			}
		}
	}()
	select {
	case got := <-ready:
		return got.conn, got.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// isDirect reports whether a request is small and needs nothing but HTTP/1.1.
func isDirect(r *http.Request) bool {
	if r.URL.Scheme != "http" || r.Close || r.ContentLength < 0 || r.ContentLength > maxDirect {
		return false
	}
	size := int(r.ContentLength) + len(r.URL.Host) + len(r.Host) + len(r.URL.Path) + len(r.URL.RawQuery)
	for i := range len(r.URL.Host) {
		if r.URL.Host[i] >= 0x80 {
			return false // net/http translates international names
		}
	}
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	return size <= maxDirect
}

// exchange writes the request and reads the header of the response.
func (l *line) exchange(r *http.Request) (*http.Response, error) {
	err := r.Write(l.w)
	if err == nil {
		err = l.w.Flush()
	}
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	for range maxInterim + 1 {
		l.left = maxHeader
		resp, err := http.ReadResponse(l.r, r)
		if err != nil && l.left <= 0 {
			return nil, fmt.Errorf("the header of the response is longer than %d bytes", maxHeader)
		}
		if err != nil {
			return nil, fmt.Errorf("read the response: %w", err)
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			l.left = math.MaxInt64
			return resp, nil
		}
	}
	return nil, errors.New("too many interim responses")
}

// body is the body of a response. The end of it gives the connection back; whatever ends it earlier closes the connection.
// Close may come while another goroutine reads.
type body struct {
	io.ReadCloser
	ctx   context.Context // of the request
	line  *line
	lines *lines
	stop  func() bool // ends the watch of ctx; false: the connection is being closed
	keep  bool        // the server keeps the connection
	ended atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	if b.ended.Load() {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(err == io.EOF)                                              //nolint:errorlint // a body returns it as it is
		if cause := context.Cause(b.ctx); cause != nil && err != io.EOF { //nolint:errorlint // the same
			err = cause
		}
	}
	return n, err
}

func (b *body) Close() error {
	b.end(false)
	return nil
}

// end gives the connection back or closes it, once. whole: the body has been read to its end.
func (b *body) end(whole bool) {
	if !b.ended.CompareAndSwap(false, true) {
		return
	}
	watched := b.stop()
	if whole && watched && b.keep && b.line.r.Buffered() == 0 {
		b.lines.put(b.line)
		return
	}
	_ = b.line.conn.Close()
}
