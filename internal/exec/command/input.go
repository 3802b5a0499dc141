package command

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// writing is a line on its way to a worker.
type writing struct {
	done chan struct{} // closed once n and err are valid; nil: they are
	n    int           // bytes that were written
	err  error         // why not all were

	refused chan struct{} // closed once the process has closed its standard input, before all was written; nil: it was all written
}

// end says what has become of it.
func (x *writing) end(n int, err error) {
	x.n, x.err = x.n+n, err
	if errors.Is(err, unix.EPIPE) {
		close(x.refused)
	}
	if x.done != nil {
		close(x.done)
	}
}

// Write writes a line to standard input, and does not wait for the process to read it: what does not fit into the pipe is
// written as it reads on. What became of it is to be had from EndWrite, which has to come before the next line.
func (w *Worker) Write(line []byte) {
	x := &writing{}
	w.writing = x
	n, err := w.writeSome(line)
	if err == nil && n == len(line) { // mostly
		x.n = n
		return
	}
	x.refused = make(chan struct{})
	if err != nil {
		x.end(n, err)
		return
	}
	x.n, x.done = n, make(chan struct{})
	_ = w.input.SetWriteDeadline(time.Time{})
	w.process.shared.running.Go(func() { // ends with the process, or with EndWrite
		x.end(w.input.Write(line[n:]))
	})
}

// Refused is closed once the process has closed its standard input before it was written the whole last line.
func (w *Worker) Refused() <-chan struct{} { return w.writing.refused }

// EndWrite writes no more of the last line. all reports whether the whole line was written, and none whether nothing of it
// was read, as far as that can be told.
func (w *Worker) EndWrite() (all, none bool) {
	x := w.writing
	if x == nil {
		return true, true
	}
	if x.done != nil {
		_ = w.input.SetWriteDeadline(time.Unix(0, 0))
		<-x.done
	}
	left, known := w.unread()
	return x.err == nil, x.n == 0 || known && left >= x.n
}

// Written is EndWrite for a process that goes on: it reports whether the whole line was written.
func (w *Worker) Written() bool {
	if w.writing.done == nil { // mostly: it fits into the pipe
		return w.writing.err == nil
	}
	select {
	case <-w.writing.done:
		return w.writing.err == nil
	default:
		all, _ := w.EndWrite()
		return all
	}
}

// unread is how many bytes of standard input wait to be read.
func (w *Worker) unread() (n int, known bool) {
	err := w.raw.Control(func(fd uintptr) { n, known = unread(int(fd)) })
	return n, known && err == nil
}

// writeSome writes what fits into the pipe.
func (w *Worker) writeSome(line []byte) (n int, err error) {
	failed := w.raw.Control(func(fd uintptr) {
		for {
			n, err = unix.Write(int(fd), line)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	if errors.Is(err, unix.EAGAIN) {
		err = nil
	}
	return max(n, 0), errors.Join(err, failed)
}

// HangUp closes standard input, which asks the process to exit.
func (w *Worker) HangUp() { _ = w.input.Close() }
