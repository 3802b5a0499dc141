package webhook

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"
)

// maxIdleLines is how many idle connections to one host are kept.
const maxIdleLines = 4096

// line is a connection of direct, with what is read and written through.
type line struct {
	host string
	conn net.Conn
	r    *bufio.Reader
	w    *bufio.Writer
	left int64     // bytes that may still be read: the header of a response is bounded
	used bool      // a request was sent on it
	idle time.Time // since when no request uses it
}

func newLine(host string, conn net.Conn) *line {
	l := &line{host: host, conn: conn}
	l.r, l.w = bufio.NewReader(l), bufio.NewWriter(conn)
	return l
}

// Read reads no more than left bytes.
func (l *line) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.conn.Read(p)
	l.left -= int64(n)
	return n, err
}

// silent reports whether the server has neither closed the connection nor sent anything since the last response: what it sent
// unasked would pass for the response to the next request.
func (l *line) silent() bool {
	c, ok := l.conn.(*countedConn)
	if !ok {
		return false // that cannot be known
	}
	_, err, ok := c.peek()
	return ok && again(err)
}

// lines keeps idle connections, by host, for idleTimeout.
type lines struct {
	mu       sync.Mutex
	free     map[string][]*line // the last one was used last
	sweeping *time.Timer        // nil: there are none
}

// take returns an idle connection that the server keeps open, the one that was used last; nil: there is none.
func (s *lines) take(host string) *line {
	for {
		s.mu.Lock()
		free := s.free[host]
		if len(free) == 0 {
			s.mu.Unlock()
			return nil
		}
		l := free[len(free)-1]
		free[len(free)-1] = nil
		s.free[host] = free[:len(free)-1]
		s.mu.Unlock()
		if time.Since(l.idle) < idleTimeout && l.silent() {
			return l
		}
		_ = l.conn.Close()
	}
}

// put keeps a connection after a response has been read to its end.
func (s *lines) put(l *line) {
	l.idle = time.Now()
	s.mu.Lock()
	full := len(s.free[l.host]) >= maxIdleLines
	if !full {
		if s.free == nil {
			s.free = make(map[string][]*line)
		}
		s.free[l.host] = append(s.free[l.host], l)
		if s.sweeping == nil {
			s.sweeping = time.AfterFunc(idleTimeout, s.sweep)
		}
	}
	s.mu.Unlock()
	if full {
		_ = l.conn.Close()
	}
}

// sweep closes what has been idle for long, and comes again while there is anything.
func (s *lines) sweep() {
	var old []*line
	s.mu.Lock()
	for host, free := range s.free {
		n := 0
		for n < len(free) && time.Since(free[n].idle) >= idleTimeout {
			n++
		}
		old = append(old, free[:n]...)
		if n == len(free) {
			delete(s.free, host)
		} else {
			s.free[host] = append([]*line(nil), free[n:]...)
		}
	}
	switch {
	case s.sweeping == nil: // closed meanwhile
	case len(s.free) == 0:
		s.sweeping = nil
	default:
		s.sweeping.Reset(idleTimeout / 2)
	}
	s.mu.Unlock()
	for _, l := range old {
		_ = l.conn.Close()
	}
}

// closeIdle closes all of them.
func (s *lines) closeIdle() {
	s.mu.Lock()
	free := s.free
	s.free = nil
	if s.sweeping != nil {
		s.sweeping.Stop()
		s.sweeping = nil
	}
	s.mu.Unlock()
	for _, list := range free {
		for _, l := range list {
			_ = l.conn.Close()
		}
	}
}
