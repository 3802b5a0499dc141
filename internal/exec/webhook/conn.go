package webhook

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// countedConn counts what has been written to a connection. It counts first and takes back what was not written after
// all: an answer may be here before the write has returned.
type countedConn struct {
	net.Conn
	written atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.written.Add(int64(len(p)))
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n - len(p)))
	return n, err
}

// counted finds the counted connection below c, which TLS may cover; nil where there is none.
func counted(c net.Conn) *countedConn {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	conn, _ := c.(*countedConn)
	return conn
}

// ended tells whether the other side has closed the connection and nothing else is left to be read of it. It takes
// nothing away from whoever reads. "No" may be out of date at once.
func (c *countedConn) ended() bool {
	raw, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	rc, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	var one [1]byte
	ended := false
	err = rc.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		again := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)
		ended = n <= 0 && !again
	})
	return err != nil || ended
}
