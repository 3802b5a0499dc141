package command

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/lease"
)

const (
	// watchAfter is how long after its start an attempt's pings begin to be read as they come. What ends before that is
	// read at its end, and costs nobody a goroutine; what is sent meanwhile waits in the kernel.
	watchAfter = 50 * time.Millisecond
	// maxPings bounds, in bytes, what is read at once: twice what a pipe holds.
	maxPings = 128 << 10
	// maxDatagrams is how many datagrams are read at once. A socket holds about ten (unix(7)).
	maxDatagrams = 64
)

// pings takes in what one attempt says: lines on its descriptor 3, and datagrams on its notify socket.
type pings struct {
	lease  *lease.Lease
	shared *shared
	log    *slog.Logger

	path  string        // of the notify socket; "": there is none
	child int           // the command's end of the pipe, until it has it; -1: it has
	timer *time.Timer   // begins to watch
	over  chan struct{} // closed at the end; nil: nobody watches

	mu           sync.Mutex
	pipe, socket source
	lines        ping.Lines
	refused      ping.Refused
	ended        bool
}

// source is our end of one of the two.
type source struct {
	fd   int      // -1: none
	file *os.File // the same, once Go's poller watches it; nil: not yet
}

func (s *source) close() {
	switch {
	case s.file != nil:
		_ = s.file.Close() // wakes who waits for it
	case s.fd >= 0:
		_ = unix.Close(s.fd)
	}
	s.fd = -1
}

// openPings makes pipe and socket for a call, and names them in its environment. close has to follow.
func (r *Runner) openPings(l *lease.Lease, k *call) (*pings, error) {
	p := &pings{lease: l, shared: &r.shared, log: r.log, child: -1}
	p.pipe.fd, p.socket.fd, p.lines.Most = -1, -1, ping.MaxBody
	var err error
	if p.pipe.fd, p.child, err = pipe(); err != nil {
		p.pipe.fd, p.child = -1, -1
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	p.socket.fd, p.path, err = r.sockets.open(k.credential)
	if errors.Is(err, errLongPath) {
		r.longPath.Do(func() { r.log.Warn("commands run without a notify socket", "err", err) })
	} else if err != nil {
		p.close()
		return nil, err
	}
	k.env = append(k.env, "LEASEHOLD_PING_FD=3")
	if p.path != "" {
		k.env = append(k.env, "NOTIFY_SOCKET="+p.path)
	}
	return p, nil
}

// started says that the command runs and has its end of the pipe.
func (p *pings) started() {
	p.closeChild()
	p.timer = time.AfterFunc(watchAfter, p.watch)
}

func (p *pings) closeChild() {
	if p.child >= 0 {
		_ = unix.Close(p.child)
		p.child = -1
	}
}

// close ends it. Once the command is gone, all that it said has been taken in when it returns; what others say that have
// left its group is not.
func (p *pings) close() {
	p.closeChild()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Lock()
	if p.over != nil || readable(p.pipe.fd) && unix.SetNonblock(p.pipe.fd, true) == nil {
		p.takeLines(p.pipe.fd)
	}
	if rest, ok := p.lines.Rest(); ok {
		p.line(rest)
	}
	p.takeDatagrams(p.socket.fd)
	p.ended = true
	p.mu.Unlock() // to close a file waits for who reads it, who may wait for the lock
	if p.over != nil {
		close(p.over)
	}
	p.pipe.close()
	p.socket.close()
	if p.path != "" {
		_ = unix.Unlink(p.path) // the directory goes with what may be left in it
	}
}

// complaint is what is to be said behind the error of an attempt that was taken for hung; "" for nothing.
func (p *pings) complaint() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused.String()
}

// watch reads pipe and socket as something comes, until they end.
func (p *pings) watch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || unix.SetNonblock(p.pipe.fd, true) != nil {
		return
	}
	p.over = make(chan struct{})
	p.pipe.file = os.NewFile(uintptr(p.pipe.fd), "|3")
	p.shared.running.Go(func() { p.follow(p.pipe.file, p.takeLines) })
	if p.socket.fd >= 0 {
		p.socket.file = os.NewFile(uintptr(p.socket.fd), p.path)
		p.shared.running.Go(func() { p.follow(p.socket.file, p.takeDatagrams) })
	}
}

// follow has what comes on a descriptor taken in, until its end.
func (p *pings) follow(file *os.File, take func(fd int) taken) {
	raw, err := file.SyscallConn()
	if err != nil {
		return
	}
	for {
		var left taken
		var worked time.Duration
		err := raw.Read(func(fd uintptr) bool {
			began := time.Now()
			p.mu.Lock()
			left = atEnd
			if !p.ended {
				left = take(int(fd))
			}
			p.mu.Unlock()
			worked += time.Since(began)
			return left != empty || ping.Pause(worked) > 0 // else it waits for more
		})
		if err != nil || left == atEnd {
			return
		}
		timer := time.NewTimer(ping.Pause(worked))
		select {
		case <-timer.C:
		case <-p.over:
			timer.Stop()
			return
		}
	}
}

// takeLines takes in what stands in the pipe, at most maxPings bytes. p.mu is held.
func (p *pings) takeLines(fd int) taken {
	if fd < 0 {
		return atEnd
	}
	buffer := p.shared.buffer()
	defer p.shared.buffers.Put(buffer)
	for left := maxPings; left > 0; {
		n, err := unix.Read(fd, *buffer)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return empty
		case n <= 0:
			return atEnd
		}
		p.lines.Add((*buffer)[:n], p.line)
		left -= n
	}
	return full
}

// line takes one line in; nil is one that is too long. p.mu is held.
func (p *pings) line(line []byte) {
	if line == nil {
		p.refuse("descriptor 3", &ping.Error{Reason: "a line is too long", TooLarge: true})
		return
	}
	said, ok, err := ping.Line(line)
	if err != nil {
		p.refuse("descriptor 3", err)
	} else if ok {
		p.lease.Ping(said)
	}
}

// takeDatagrams takes in what stands in the socket, at most maxDatagrams. Descriptors that come along are closed by the
// kernel, as nobody asks for them; a sender that waits for just that (sd_notify_barrier(3)) goes on. p.mu is held.
func (p *pings) takeDatagrams(fd int) taken {
	if fd < 0 {
		return atEnd
	}
	if _, _, err := unix.Recvfrom(fd, make([]byte, 1), unix.MSG_PEEK); errors.Is(err, unix.EAGAIN) {
		return empty // mostly: a buffer of that size is not had for nothing
	}
	buffer, ok := p.shared.datagrams.Get().(*[]byte)
	if !ok {
		b := make([]byte, ping.MaxBody+1) // one byte more tells that it was too long
		buffer = &b
	}
	defer p.shared.datagrams.Put(buffer)
	for range maxDatagrams {
		n, _, err := unix.Recvfrom(fd, *buffer, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return empty
		case err != nil:
			return atEnd
		}
		p.datagram((*buffer)[:n])
	}
	return full
}

func (p *pings) datagram(d []byte) {
	said, alive, err := ping.Datagram(d)
	switch {
	case err != nil:
		p.refuse("the notify socket", err)
	case alive:
		p.lease.Ping(said)
	case said.Message != "":
		p.lease.Tell(said.Message)
	}
}

// refuse notes what was no ping. There is no way to tell the command, so people are told. p.mu is held.
func (p *pings) refuse(where string, err error) {
	if p.refused.Add(err) {
		row := p.lease.Task()
		p.log.Warn("malformed ping, which does not count; further ones of this attempt are not logged",
			"task", row.ID, "type", row.Type, "fence", row.Fence, "on", where, "why", err)
	}
}

// buffer gives a buffer of readSize bytes.
func (s *shared) buffer() *[]byte {
	if b, ok := s.buffers.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, readSize)
	return &b
}
