package guardian

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is a guardian process, from the agent's side.
type child struct {
	cmd   *exec.Cmd
	in    *os.File // of records to it; nil once hung up
	raw   syscall.RawConn
	out   *os.File      // of its answers
	ready chan struct{} // closed once it watches
	ended chan error    // gets why it ended

	backlog         []byte       // what did not fit into the pipe
	behind          time.Time    // since when there is a backlog
	unansweredSince time.Time    // since when it owes an answer to a presence; zero: never
	answered        atomic.Int64 // answers to presences
	sent            int64        // presences written
}

// Self is the argument list that starts the running program again as a guardian. Only a program whose main looks for
// Argument may use it: any other would start all of what it is again and again.
func Self() []string {
	path := selfPath
	if path == "" {
		path, _ = os.Executable() // without it, the start fails and says so
	}
	// With the name that it was called by, because a program may be several (as busybox is).
	return []string{path, os.Args[0], Argument}
}

// startChild starts a guardian process. It gets nothing of the agent's: no environment, no directory, no descriptor.
func startChild(o Options) (c *child, err error) {
	if len(o.Argv) < 2 {
		return nil, errors.New("its program is not known")
	}
	greeting, err := hello{Run: o.Run, Dirs: o.Dirs, Cgroup: o.Cgroup}.pack()
	if err != nil {
		return nil, err
	}
	c = &child{ready: make(chan struct{}), ended: make(chan error, 1)}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start it: %w", err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start it: %w", err), theirIn.Close(), in.Close())
	}
	c.in, c.out = in, out
	c.raw, err = in.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start it: %w", err), theirIn.Close(), theirOut.Close(), in.Close(), out.Close())
	}
	c.cmd = &exec.Cmd{
		Path: o.Argv[0], Args: o.Argv[1:], Env: []string{}, Dir: "/", Stdin: theirIn, Stdout: theirOut,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	err = c.cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close()
	if err == nil {
		_, err = in.Write(greeting)
	}
	if err != nil {
		c.release()
		if c.cmd.Process != nil {
			_, _ = c.cmd.Process.Kill(), c.cmd.Wait()
		}
		return nil, fmt.Errorf("start it: %w", err)
	}
	widen(in)
	go c.listen() // ends with the process, or release
	go func() {   // ends with the process
		c.ended <- ending(c.cmd.Wait())
	}()
	return c, nil
}

// ending says that a process has ended, and how.
func ending(err error) error {
	if err == nil {
		return errors.New("it has ended")
	}
	return fmt.Errorf("it ended: %w", err)
}

// listen counts the answers of the process.
func (c *child) listen() {
	buffer := make([]byte, 512)
	for first := true; ; {
		n, err := c.out.Read(buffer)
		if err != nil {
			return
		}
		answers := buffer[:n]
		if first && n > 0 && answers[0] == sayReady {
			close(c.ready)
			first, answers = false, answers[1:]
		}
		c.answered.Add(int64(len(answers)))
	}
}

// write writes a record, or keeps it for later where the pipe is full: the runner of an attempt never waits. The
// Guardian's lock is held, as in all that follows.
func (c *child) write(r record) {
	if c.in == nil {
		return
	}
	if r.kind == present {
		if c.answered.Load() == c.sent {
			c.unansweredSince = time.Now()
		}
		c.sent++
	}
	if len(c.backlog) > 0 {
		c.backlog = r.append(c.backlog)
		return
	}
	var space [recordSize]byte
	if b := r.append(space[:0]); !c.put(b) {
		c.backlog, c.behind = append(c.backlog, b...), time.Now()
	}
}

// flush tries to write what did not fit, and reports whether some is left.
func (c *child) flush() (left bool) {
	for len(c.backlog) > 0 && c.in != nil {
		n := min(len(c.backlog), pipeAtom/recordSize*recordSize)
		if !c.put(c.backlog[:n]) {
			return true
		}
		c.backlog = c.backlog[n:]
	}
	c.backlog = nil
	return false
}

// pipeAtom is the least that every system writes to a pipe whole or not at all (PIPE_BUF).
const pipeAtom = 512

// put writes to the pipe without waiting, all or nothing. It is false where the pipe is full.
func (c *child) put(b []byte) bool {
	full := false
	_ = c.raw.Control(func(fd uintptr) {
		for {
			_, err := unix.Write(int(fd), b)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			full = errors.Is(err, unix.EAGAIN) // any other error says that the pipe has no reader: the process has ended
			return
		}
	})
	return !full
}

// silent reports whether the process has owed an answer for longer than that.
func (c *child) silent(most time.Duration) bool {
	return c.answered.Load() < c.sent && time.Since(c.unansweredSince) > most
}

// kill ends the process at once. An error says that it has ended.
func (c *child) kill() error { return c.cmd.Process.Kill() }

// hangUp ends the pipe, which shows the process that the agent has ended.
func (c *child) hangUp() {
	if c.in != nil {
		_ = c.in.Close()
		c.in = nil
	}
}

// release closes what there is of a process that has ended.
func (c *child) release() {
	c.hangUp()
	_ = c.out.Close()
}
