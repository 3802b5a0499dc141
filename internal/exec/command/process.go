package command

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a running command and its group, whose number is the leader's.
type process struct {
	pid    int
	began  time.Time          // shortly before the start
	exited chan struct{}      // closed once the leader has been reaped
	lived  time.Duration      // of the leader; valid once exited is closed
	state  syscall.WaitStatus // of the leader; the same, unless lost
	lost   bool               // the leader's state was not to be had

	in  *os.File // our end of its standard input; nil: it was written before the start
	out drain

	hold   *hold
	shared *shared
}

// shared is what the processes of a runner have in common.
type shared struct {
	running sync.WaitGroup // goroutines, which end with their process or shortly after
	stuck   sync.WaitGroup // goroutines, which end with a process that SIGKILL did not end, or the runner
	gone    func(int) bool // for tests: in the place of groupGone
	buffers sync.Pool      // of *[]byte, readSize long

	datagrams sync.Pool // of *[]byte, for a datagram of the most that is taken
	terminal  bool      // the agent has one
}

// pipeHolds is how much every pipe takes without a reader (pipe(7): one page at the least).
const pipeHolds = 4096

// start starts a call as the leader of a new process group. What it leaves running ends with the process and finish.
func start(k *call, s *shared, h *hold, says *pings) (*process, error) {
	p := &process{exited: make(chan struct{}), shared: s, hold: h}
	childIn, err := p.makeInput(k.input)
	if err != nil {
		return nil, err
	}
	// One pipe keeps the order of output and errors.
	out, childOut, err := pipe()
	if err != nil {
		_, _ = unix.Close(childIn), p.in.Close()
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	p.out = drain{shared: s, pipe: source{fd: out}}
	p.began = time.Now()
	// os/exec would have all ends watched by Go's poller, those of the child too, and open a pidfd.
	p.pid, err = h.fork(k.path, k.argv, &syscall.ProcAttr{
		Dir: k.dir, Env: k.env,
		Files: []uintptr{uintptr(childIn), uintptr(childOut), uintptr(childOut), uintptr(says.child)},
		Sys:   apart(k.credential, s.terminal),
	})
	_, _ = unix.Close(childIn), unix.Close(childOut)
	if err != nil {
		_ = p.in.Close()
		p.out.pipe.close()
		return nil, startError(k, err)
	}
	p.out.start()
	if p.in != nil {
		s.running.Go(func() { p.feed(k.input) })
	}
	s.running.Go(p.reap)
	says.started()
	return p, nil
}

// makeInput makes the pipe that is the command's standard input and returns the command's end. A short input is in it
// when it returns; p.in is the other end for a longer one.
func (p *process) makeInput(input []byte) (childIn int, err error) {
	childIn, in, err := pipe()
	if err != nil {
		return 0, fmt.Errorf("make a pipe: %w", err)
	}
	if len(input) > pipeHolds {
		if p.in, err = pollable(in); err != nil {
			return 0, errors.Join(err, unix.Close(childIn))
		}
		return childIn, nil
	}
	_, _ = unix.Write(in, input)
	_ = unix.Close(in)
	return childIn, nil
}

// pollable has Go's poller watch our end of a pipe.
func pollable(fd int) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "|"), nil
}

// reap waits for the end of the leader. Nobody else waits for it (groupGone does only afterwards).
func (p *process) reap() {
	for {
		_, err := syscall.Wait4(p.pid, &p.state, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		p.lived, p.lost = time.Since(p.began), err != nil
		close(p.exited)
		return
	}
}

// feed writes the input. A child that does not read it, or not all, is free to do so.
func (p *process) feed(input []byte) {
	_, _ = p.in.Write(input)
	_ = p.in.Close()
}

// finish ends the pipes and returns what was printed.
func (p *process) finish() string {
	if p.in != nil {
		_ = p.in.SetWriteDeadline(time.Unix(0, 0)) // wakes feed, which closes it
	}
	return p.out.finish()
}

// ended reports whether the leader has ended and been reaped.
func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// status is how the leader ended.
func (p *process) status() exitStatus {
	if !p.ended() || p.lost {
		return exitStatus{unknown: true}
	}
	if p.state.Signaled() {
		return exitStatus{signal: p.state.Signal()}
	}
	return exitStatus{code: p.state.ExitStatus()}
}

// startError says in whose power it is that a call did not start.
func startError(k *call, err error) error {
	switch {
	case errors.Is(err, unix.E2BIG):
		return &rowError{fmt.Errorf("%s: argv and env are too long: %w", k.source, err)}
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES):
		if info, derr := os.Stat(k.dir); k.dir != "" && (derr != nil || !info.IsDir()) {
			return fmt.Errorf("%s: dir = %q is not a directory that the agent can enter", k.source, k.dir)
		}
	}
	return fmt.Errorf("%s: start %s: %w", k.source, k.argv[0], err)
}
