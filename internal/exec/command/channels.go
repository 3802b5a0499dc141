package command

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/ping"
)

const (
	// watchAfter is how long after its start a process's channels begin to be read as something comes. What ends before
	// that is read at its end, and costs no goroutine; what is sent meanwhile waits in the kernel.
	watchAfter = 50 * time.Millisecond
	// maxPings bounds, in bytes, what is read at once: twice what a pipe holds.
	maxPings = 128 << 10
	// maxDatagrams is how many datagrams are read at once. A socket holds about ten (unix(7)).
	maxDatagrams = 64
)

// channels are the ways on which a process reports: lines on its descriptor 3, and datagrams on its notify socket.
type channels struct {
	to     receiver
	shared *shared

	path  string        // of the notify socket; "": there is none
	child int           // the command's end of the pipe, until it has it; -1: it has
	timer *time.Timer   // begins to watch
	over  chan struct{} // closed at the end; nil: nothing watches

	mu           sync.Mutex
	pipe, socket source
	lines        ping.Lines
	ended        bool
}

// receiver gets what comes on channels, one call after another, and none once close has returned.
type receiver interface {
	line(line []byte) // nil: one that is too long
	datagram(d []byte)
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

// openChannels makes pipe and socket for a process of that user; nil: the agent's own. close has to follow.
func (s *spawner) openChannels(c *syscall.Credential, to receiver) (*channels, error) {
	p := &channels{to: to, shared: &s.shared, child: -1}
	p.pipe.fd, p.socket.fd, p.lines.Most = -1, -1, ping.MaxBody
	var err error
	if p.pipe.fd, p.child, err = pipe(); err != nil {
		p.pipe.fd, p.child = -1, -1
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	p.socket.fd, p.path, err = s.sockets.open(c)
	if errors.Is(err, errLongPath) {
		s.longPath.Do(func() { s.log.Warn("commands run without a notify socket", "err", err) })
	} else if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// environment returns env with the variables that name the channels.
func (p *channels) environment(env []string) []string {
	env = append(env, "LEASEHOLD_PING_FD=3")
	if p.path != "" {
		env = append(env, "NOTIFY_SOCKET="+p.path)
	}
	return env
}

// started says that the command runs and has its end of the pipe.
func (p *channels) started() {
	p.closeChild()
	p.timer = time.AfterFunc(watchAfter, p.watch)
}

func (p *channels) closeChild() {
	if p.child >= 0 {
		_ = unix.Close(p.child)
		p.child = -1
	}
}

// close ends them, once. All that the process sent before its end has been received when close returns; what is sent
// later, by what left its group, is not.
func (p *channels) close() {
	p.closeChild()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return
	}
	if p.over != nil || readable(p.pipe.fd) && unix.SetNonblock(p.pipe.fd, true) == nil {
		p.takeLines(p.pipe.fd)
	}
	if rest, ok := p.lines.Rest(); ok {
		p.to.line(rest)
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

// watch reads pipe and socket as something comes, until they end.
func (p *channels) watch() {
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
func (p *channels) follow(file *os.File, take func(fd int) taken) {
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
func (p *channels) takeLines(fd int) taken {
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
		p.lines.Add((*buffer)[:n], p.to.line)
		left -= n
	}
	return full
}

// takeDatagrams takes in what stands in the socket, at most maxDatagrams. Descriptors that come along are closed by the
// kernel, because it is not asked for them; a sender that waits for just that (sd_notify_barrier(3)) goes on. p.mu is held.
func (p *channels) takeDatagrams(fd int) taken {
	if fd < 0 {
		return atEnd
	}
	if _, _, err := unix.Recvfrom(fd, make([]byte, 1), unix.MSG_PEEK); errors.Is(err, unix.EAGAIN) {
		return empty // mostly: a buffer of that size is not had for nothing
	}
	buffer, ok := p.shared.datagrams.Get().(*[]byte)
	if !ok {
		b := make([]byte, ping.MaxBody+1) // one byte more shows that it was too long
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
		p.to.datagram((*buffer)[:n])
	}
	return full
}

// buffer gives a buffer of readSize bytes.
func (s *shared) buffer() *[]byte {
	if b, ok := s.buffers.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, readSize)
	return &b
}
