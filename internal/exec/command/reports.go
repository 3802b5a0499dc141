package command

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/ping"
)

// reports are the lines of a worker's descriptor 3, read as they come.
type reports struct {
	shared *shared
	to     func(line []byte) (noise bool) // as Receiver
	file   *os.File
	raw    syscall.RawConn // of file
	end    chan struct{}   // closed once nothing more comes: the last writer has closed it, or close was called
	stop   chan struct{}   // closed by close

	mu    sync.Mutex
	lines ping.Lines
	noise bool // lines came that ended nothing
	over  bool
}

// start reads from a pipe, which it owns from now on. close has to follow.
func (r *reports) start(fd int) error {
	file, err := pollable(fd)
	if err != nil {
		return err
	}
	r.file = file
	r.raw, _ = file.SyscallConn() // it fails for no file only
	r.shared.running.Go(r.follow)
	return nil
}

// follow takes in what comes until the end. A process that reports without a pause is slowed down; one that ends attempts is
// not.
func (r *reports) follow() {
	defer close(r.end)
	for {
		var left taken
		var pause time.Duration
		err := r.raw.Read(func(fd uintptr) bool {
			left, pause = r.take(int(fd))
			return left != empty || pause > 0
		})
		if err != nil || left == atEnd {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-r.stop:
			timer.Stop()
			return
		}
	}
}

// take takes in what stands in the pipe, at most maxPings bytes, and says how long not to look again.
func (r *reports) take(fd int) (left taken, pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return atEnd, 0
	}
	began := time.Now()
	r.noise = false
	left = r.read(fd)
	if r.noise {
		pause = ping.Pause(time.Since(began))
	}
	return left, pause
}

// read reads. r.mu is held.
func (r *reports) read(fd int) taken {
	buffer := r.shared.buffer()
	defer r.shared.buffers.Put(buffer)
	for room := maxPings; room > 0; {
		n, err := unix.Read(fd, *buffer)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return empty
		case n <= 0:
			r.rest()
			return atEnd
		}
		r.lines.Add((*buffer)[:n], r.line)
		if r.lines.TooLong() { // its end may never come
			r.line(nil)
			r.noise = true
		}
		room -= n
	}
	return full
}

func (r *reports) line(line []byte) { r.noise = r.to(line) || r.noise }

// rest takes in a line without a line feed, which is the last. r.mu is held.
func (r *reports) rest() {
	if line, ok := r.lines.Rest(); ok {
		r.line(line)
	}
	r.over = true
}

// drain takes in what stands in the pipe, without waiting for what may hold it open, nor for one that goes on writing.
func (r *reports) drain() {
	_ = r.raw.Control(func(fd uintptr) {
		stands, known := unread(int(fd))
		if !known {
			stands = maxPipe
		}
		left := full
		for taken := 0; left == full && taken < stands; taken += maxPings {
			left, _ = r.take(int(fd))
		}
	})
}

// close ends reading. What was written before has been taken in when it returns, and no line comes after that.
func (r *reports) close() {
	r.drain()
	r.mu.Lock()
	if !r.over {
		r.rest()
	}
	r.mu.Unlock() // to close a file waits for who reads it, who may wait for the lock
	close(r.stop)
	_ = r.file.Close()
}
