package command

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// drainAfter is how long after its start a command's output begins to be read as it comes. What is over before that
	// is read at its end, once, and costs no goroutine; it may wait for as long once it has filled the pipe.
	drainAfter = 5 * time.Millisecond
	// readSize is how much output is read at once.
	readSize = 32 << 10
	// maxPipe is more than a pipe holds (fs.pipe-max-size is 1 MiB), so that one who goes on writing is not read for ever.
	maxPipe = 2 << 20
)

// drain reads what a command prints, so that the pipe is never full for long, and keeps some of it.
type drain struct {
	shared *shared
	timer  *time.Timer // begins to follow

	mu   sync.Mutex
	pipe source
	raw  syscall.RawConn // of the pipe, once Go's poller watches it
	kept output
	over bool // nothing is kept any more
}

// start has the output followed before long. finish has to come, once.
func (d *drain) start() { d.timer = time.AfterFunc(drainAfter, d.follow) }

// follow reads as output comes, until no process can write any more, or finish has taken the rest.
func (d *drain) follow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over || unix.SetNonblock(d.pipe.fd, true) != nil {
		return
	}
	d.pipe.file = os.NewFile(uintptr(d.pipe.fd), "|1")
	d.raw, _ = d.pipe.file.SyscallConn() // it fails for no file only
	d.shared.running.Go(func() {
		buffer := d.shared.buffer()
		defer d.shared.buffers.Put(buffer)
		_ = d.raw.Read(func(fd uintptr) bool {
			for {
				switch d.take(int(fd), *buffer) {
				case atEnd:
					return true
				case empty:
					return false // wait for more
				case full:
				}
			}
		})
	})
}

// taken is how take left the pipe.
type taken int

const (
	empty taken = iota // for now
	full               // it took a lot, and there may be more
	atEnd              // nothing more comes, or nothing more is kept
)

// take reads what stands in a pipe that does not block, at most about maxPipe bytes of it.
func (d *drain) take(fd int, buffer []byte) taken {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return atEnd
	}
	for left := maxPipe; left > 0; {
		n, err := unix.Read(fd, buffer)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return empty
		case n <= 0:
			return atEnd
		}
		d.kept.add(buffer[:n])
		left -= n
	}
	return full
}

// finish returns what was printed. What the dead have left in the pipe is read here and now: neither the end of the file
// nor follow is waited for, as a process outside the group may hold the pipe open, and while all threads are busy
// starting processes, Go's scheduler would take milliseconds to get there.
func (d *drain) finish() string {
	d.timer.Stop()
	d.mu.Lock()
	followed := d.pipe.file != nil
	if !followed {
		d.takeReadable()
		d.over = true
	}
	d.mu.Unlock()
	if followed {
		d.takeFollowed()
	}
	d.mu.Lock()
	d.over = true
	text := d.kept.String()
	d.mu.Unlock() // to close a file wakes its waiter, which needs the lock
	d.pipe.close()
	return text
}

// cut returns what was printed since the last cut, as far as it has arrived, and keeps what comes from now on. It comes
// before finish.
func (d *drain) cut() string {
	d.mu.Lock()
	followed := d.pipe.file != nil
	if !followed {
		d.takeReadable()
	}
	d.mu.Unlock()
	if followed {
		d.takeFollowed()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept.total == 0 {
		return "" // mostly
	}
	text := d.kept.String()
	d.kept = output{}
	return text
}

// takeFollowed takes what stands in a pipe that is followed.
func (d *drain) takeFollowed() {
	buffer := d.shared.buffer()
	defer d.shared.buffers.Put(buffer)
	_ = d.raw.Control(func(fd uintptr) { d.take(int(fd), *buffer) })
}

// takeReadable is take for a pipe that blocks: it looks before it reads. d.mu is held.
func (d *drain) takeReadable() {
	if !readable(d.pipe.fd) {
		return // mostly
	}
	buffer := d.shared.buffer()
	defer d.shared.buffers.Put(buffer)
	for left := maxPipe; left > 0 && readable(d.pipe.fd); {
		n, err := unix.Read(d.pipe.fd, *buffer)
		if err != nil && !errors.Is(err, unix.EINTR) || err == nil && n <= 0 {
			return
		}
		d.kept.add((*buffer)[:max(n, 0)])
		left -= max(n, 0)
	}
}

// readable reports whether something can be read from a pipe that has no other reader.
func readable(fd int) bool {
	ask := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(ask, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && n > 0 && ask[0].Revents&unix.POLLIN != 0
	}
}
