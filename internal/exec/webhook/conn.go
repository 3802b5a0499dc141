package webhook

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// errEnded is why nothing was written to a connection that the server had closed.
var errEnded = errors.New("the server has closed the connection")

// countedConn counts what has been written to a connection. It counts first and takes back what was not written after
// all: an answer may be here before the write has returned.
//
// It also notes what is known of the server's end of it. A server that closes a connection sends FIN, with the number of
// the byte that it expects next; whatever arrives afterwards it refuses with a reset. So where FIN came and the server has
// acknowledged nothing of a request, it had closed before any of it arrived. A reset without FIN proves nothing: it is
// also what a server sends that has read the request and dies.
type countedConn struct {
	net.Conn
	written atomic.Int64
	answers atomic.Int64 // on this connection
	probe   atomic.Bool  // the next write looks first whether the server has closed the connection
	peeking peeking

	base   int64        // what the kernel counted as acknowledged before anything was written; unknown: negative
	fin    atomic.Bool  // the server has sent FIN, and no reset before it
	broken atomic.Bool  // something other than that came to light: a reset, a timeout
	acked  atomic.Int64 // the most bytes that were acknowledged when the server's end was looked at
}

// newConn wraps a connection to which nothing has been written.
func newConn(c net.Conn) *countedConn {
	conn := &countedConn{Conn: c, base: -1}
	if _, acked, ok := tcpState(c); ok {
		conn.base = acked
	}
	return conn
}

func (c *countedConn) Write(p []byte) (int, error) {
	if c.probe.Load() && c.probe.Swap(false) && c.ended() {
		return 0, errEnded
	}
	c.written.Add(int64(len(p)))
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n - len(p)))
	if err != nil && !errors.Is(err, syscall.EPIPE) { // which means FIN, or an error that was reported before
		c.broken.Store(true)
	}
	return n, err
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch {
	case err == nil:
	case err == io.EOF: //nolint:errorlint // a net.Conn returns it as it is
		c.fin.Store(true)
		c.look()
	case !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded):
		c.broken.Store(true)
	}
	return n, err
}

// Close looks once more before it closes: below TLS the end may not have been read.
func (c *countedConn) Close() error {
	c.look()
	if !c.fin.Load() && !c.broken.Load() {
		// Of a connection that has been reset the state no longer shows whether FIN had come. A read shows it, except one that
		// comes after another has returned the reset: that one sets broken.
		n, err, ok := c.peek()
		c.fin.Store(ok && n == 0 && err == nil)
	}
	return c.Conn.Close()
}

// look asks the kernel what it knows.
func (c *countedConn) look() {
	state, acked, ok := tcpState(c.Conn)
	if !ok {
		return
	}
	if state == finSeen {
		c.fin.Store(true)
	}
	for {
		old := c.acked.Load()
		if acked-c.base <= old || c.acked.CompareAndSwap(old, acked-c.base) {
			return
		}
	}
}

// refused reports whether it is certain that the server has closed the connection before any byte beyond the first before
// arrived. It is to be asked once reader and writer of the connection are done.
func (c *countedConn) refused(before int64) bool {
	// All earlier bytes have to be among those that are known as acknowledged, else the kernel does not count them. On a
	// new connection the opening of it is what it has counted.
	counts := c.base >= 0 && before > 0 || c.base > 0
	return counts && c.fin.Load() && !c.broken.Load() && c.acked.Load() == before
}

// counted finds the counted connection below c, which TLS may cover; nil where there is none.
func counted(c net.Conn) *countedConn {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	conn, _ := c.(*countedConn)
	return conn
}

// ended reports whether the other side has closed the connection and nothing else is left to be read of it. It takes
// nothing away from a reader. "No" may be out of date at once.
func (c *countedConn) ended() bool {
	n, err, ok := c.peek()
	return ok && n <= 0 && !again(err)
}

func again(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }

// peeking is what peek works with. It is kept, because each request on a used connection begins with a peek.
type peeking struct {
	mu  sync.Mutex // guards what follows
	raw syscall.RawConn
	run func(fd uintptr) // peeks, into n and err
	n   int
	err error
	one [1]byte
}

// peek reads a byte, if there is one, and leaves it there. ok is false where that cannot be done. The kernel reports a reset
// only once, so peek notes it: the next reader would take it for an orderly end.
func (c *countedConn) peek() (n int, err error, ok bool) { //nolint:revive // the error is an answer here
	p := &c.peeking
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.raw == nil {
		raw, is := c.Conn.(syscall.Conn)
		if !is {
			return 0, nil, false
		}
		if p.raw, err = raw.SyscallConn(); err != nil {
			return 0, err, false
		}
		p.run = func(fd uintptr) {
			p.n, _, p.err = unix.Recvfrom(int(fd), p.one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		}
	}
	if closed := p.raw.Control(p.run); closed != nil { // here
		return 0, closed, true
	}
	if p.err != nil && !again(p.err) {
		c.broken.Store(true)
	}
	return p.n, p.err, true
}
